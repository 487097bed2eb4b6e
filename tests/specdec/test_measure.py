from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from specdec import measure
from specdec.errors import DeviceError
from specdec.loading import Model, load_model
from specdec.measure import check_finite, choose_runner, padded, spread, step_seconds
from specdec.runner import LeanScorer
from specdec.selftest import even_counts
from tests.fakes import Uneven
from tests.tiny import TOKENS, tiny_model

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = torch.device("cpu")


class Sleeper:
    """A scorer whose step takes a millisecond and two more a row."""

    vocab = capacity = chunk = 64
    exact = can_rewind = True
    reusable = 0

    def __init__(self) -> None:
        self.length = 5
        self.calls: list[int] = []

    def room(self) -> int:
        return 8

    def prefill(self, ids: Sequence[int]) -> None:
        self.length += len(ids)

    def score(self, ids: Sequence[int]) -> Tensor:
        self.calls.append(len(ids))
        self.length += len(ids)
        time.sleep(0.001 + 0.002 * len(ids))
        return torch.zeros(len(ids), 64)

    def score_tensor(self, ids: Tensor) -> Tensor:
        return self.score(ids.tolist())

    def rewind(self, length: int) -> None:
        self.length = length


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def bf16(folder: Path) -> Model:
    return load_model(folder, CPU, torch.bfloat16)


def test_step_seconds_takes_turns_and_leaves_the_length() -> None:
    scorer = Sleeper()
    costs = step_seconds(scorer, [1, 4, 8], repeats=3)
    assert scorer.length == 5
    assert scorer.calls == [1, 4, 8] * 4
    assert costs[1] >= 0.003
    assert costs[1] < costs[4] < costs[8]


def test_spread_fills_the_gaps() -> None:
    assert spread({1: 1.0, 4: 2.5}) == {1: 1.0, 2: 1.5, 3: 2.0, 4: 2.5}
    assert spread({1: 1.0}) == {1: 1.0}


def test_the_step_of_an_exact_runner_is_what_padding_makes_it() -> None:
    choice = padded({3: 0.110, 6: 0.120, 8: 0.200}, plain=0.100, even=(3, 4, 5, 6, 8))
    assert (choice.runner, choice.exact) == ("fast", True)
    assert [choice.costs[w] for w in (1, 3, 6, 7, 8)] == [0.110, 0.110, 0.120, 0.200, 0.200]
    assert choice.costs[4] == pytest.approx(0.110 + 0.010 / 3)
    assert choice.plain_cost == 0.100  # claims are against the fastest plain decoding
    assert "110.0 ms for 3 rows against 100.0 ms" in choice.choice.reason


def test_one_even_number_is_the_static_runner() -> None:
    choice = padded({8: 0.109}, plain=0.120, even=(8,))
    assert (choice.runner, choice.choice.value, choice.exact) == ("static", "static", True)
    assert choice.costs == dict.fromkeys(range(1, 9), 0.109)
    assert choice.plain_cost == 0.109  # the faster of the two
    assert "one width" in choice.choice.reason


@pytest.mark.parametrize(("step", "exact"), [(0.13, True), (0.15, False), (0.17, False)])
def test_exactness_is_bought_up_to_a_price(
    bf16: Model, monkeypatch: pytest.MonkeyPatch, step: float, exact: bool
) -> None:
    def times(jobs: list[tuple[LeanScorer, int]], repeats: int) -> dict[Any, float]:
        return {(s, w): step if len(s.layout.counts) < 8 or w > 1 else 0.1 for s, w in jobs}

    monkeypatch.setattr(measure, "_alternate", times)
    choice = choose_runner(replace(bf16, even={8: (3, 5, 8)}), 8, 300, TOKENS)
    assert choice.exact == exact
    assert (choice.plain_cost, choice.costs[1]) == (0.1, step if exact else 0.1)
    assert ("near-ties" in choice.choice.reason) != exact


def test_a_busy_moment_does_not_cost_the_exact_runner(
    bf16: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = iter((0.19, 0.11))

    def times(jobs: list[tuple[LeanScorer, int]], repeats: int) -> dict[Any, float]:
        step = next(steps)
        return {(s, w): 0.1 if w == 1 else step for s, w in jobs}

    monkeypatch.setattr(measure, "_alternate", times)
    choice = choose_runner(replace(bf16, even={8: (3, 4, 8)}), 8, 300, TOKENS)
    assert choice.exact
    assert "110.0 ms for 3 rows against 100.0 ms" in choice.choice.reason


def test_where_no_two_calls_agree_the_label_is_off(bf16: Model) -> None:
    choice = choose_runner(replace(bf16, even={8: ()}), 8, 300, TOKENS)
    assert (choice.runner, choice.exact) == ("fast", False)
    assert "by place" in choice.choice.reason


@pytest.mark.parametrize("width", [1, 8, 17])
def test_choosing_on_a_real_model(bf16: Model, width: int) -> None:
    choice = choose_runner(bf16, width, 300, TOKENS)
    assert choice.runner == choice.choice.value
    assert sorted(choice.costs) == list(range(1, width + 1))
    assert 0 < choice.plain_cost <= choice.costs[1]


def test_an_even_handed_fast_runner_serves_exactly(folder: Path) -> None:
    model = load_model(folder, CPU, torch.float32)
    if even_counts(model.weights, 8, TOKENS)[0] == 1:  # type: ignore[arg-type]
        choice = choose_runner(model, 8, 20, TOKENS)
        assert (choice.runner, choice.exact) == ("fast", True)
        assert "does not depend" in choice.choice.reason


def test_the_self_test_catches_uneven_rows(bf16: Model) -> None:
    weights = bf16.weights
    assert weights is not None
    assert 8 in even_counts(weights, 8, TOKENS)
    head = Uneven(weights.embed.clone())
    assert even_counts(replace(weights, head=head), 8, TOKENS) == (8,)  # one width hides it


def test_an_uneven_matrix_in_the_first_layer_is_seen(folder: Path) -> None:
    weights = load_model(folder, CPU, torch.float32).weights
    assert weights is not None
    down = Uneven(torch.randn(64, 96, generator=torch.Generator().manual_seed(0)))
    first = replace(weights.layers[0], down=down)
    assert even_counts(replace(weights, layers=(first, *weights.layers[1:])), 8, TOKENS) == (8,)


def test_numbers_that_are_none_are_refused_at_load(bf16: Model) -> None:
    assert bf16.weights is not None
    broken = replace(bf16.weights, norm=torch.full_like(bf16.weights.norm, torch.nan))
    with pytest.raises(DeviceError, match="not numbers") as caught:
        choose_runner(replace(bf16, weights=broken, even={}), 8, 100, TOKENS)
    assert "fp32" in caught.value.hint


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_check_finite_looks_at_every_row(bad: float) -> None:
    good = torch.zeros(3, 5)
    good[:, 2] = -torch.inf  # a token that may not be drawn is no fault
    check_finite(good)
    rows = good.clone()
    rows[1] = bad
    with pytest.raises(DeviceError):
        check_finite(rows)
    if bad != -torch.inf:
        good[2, 4] = bad
        with pytest.raises(DeviceError):
            check_finite(good)


def test_slow_steps_are_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "PATIENCE", 0.01)
    scorer = Sleeper()
    assert step_seconds(scorer, [1, 8])[8] > 0
    assert scorer.calls == [1, 8]
