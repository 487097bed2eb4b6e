"""Where a target is left: agreement on a text, what a drafted token costs, and the gain."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from specdec import exit_calibration
from specdec.decoder import Weights
from specdec.exit_calibration import (
    agreements,
    best_exit,
    candidates,
    estimated_token,
    predicted,
)
from specdec.loading import load_model
from specdec.runner import Layout, LeanScorer
from tests.specdec.exit_kit import idle_after
from tests.tiny import TOKENS, tiny_model

pytestmark = pytest.mark.usefixtures("one_thread")

IDS = [(11 * i * i + 5 * i) % 251 for i in range(80)]


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Weights:
    folder = tiny_model(tmp_path_factory.mktemp("deep"), num_hidden_layers=6)
    return read(idle_after(folder, 3))


def read(folder: Path) -> Weights:
    weights = load_model(folder, torch.device("cpu"), torch.float32).weights
    assert weights is not None
    return weights


def test_exits_lie_inside_the_stack_and_few_layers_have_none() -> None:
    assert candidates(3) == ()
    assert candidates(4) == (1, 2, 3)
    assert candidates(30) == (4, 8, 10, 15, 20)
    for count in range(4, 90):
        found = candidates(count)
        assert 1 <= found[0] <= found[-1] < count


def test_layers_that_add_nothing_are_agreed_with_and_others_are_not(weights: Weights) -> None:
    found = agreements(weights, IDS, (1, 2, 3, 4, 5), TOKENS)
    assert found[3] == found[4] == found[5] == 1.0
    assert found[1] <= found[2] < 0.9
    row = decoded(weights, IDS, 1)
    assert found[1] == pytest.approx(row, abs=1e-6)


def decoded(weights: Weights, ids: list[int], layers: int) -> float:
    """The same share, a token at a time through the runner."""
    scorer = LeanScorer(weights, Layout.plain(8), 128, TOKENS, exact=False)
    same = 0
    for token in ids:
        early = scorer.score_early([token], layers).argmax()
        same += int(early == scorer.score([token])[0].argmax())
    return same / len(ids)


def test_the_gain_is_the_controllers_formula_by_hand() -> None:
    costs = {1: 1.0, 2: 1.0, 3: 1.5, 4: 4.0}
    best = predicted(costs, token=0.25, layers=3, agreement=0.5, k_max=3)
    assert (best.k, best.layers) == (1, 3)
    assert best.gain == pytest.approx(1.5 / (0.25 + 1.0))
    best = predicted(costs, token=0.0, layers=3, agreement=1.0, k_max=2)
    assert (best.k, best.gain) == (1, 2.0)  # of equals the one that drafts least
    best = predicted(dict.fromkeys(costs, 1.0), token=0.1, layers=3, agreement=0.9, k_max=3)
    assert best.k == 3
    assert best.gain == pytest.approx((1 + 0.9 + 0.81 + 0.729) / 1.3)
    assert predicted(costs, token=0.5, layers=1, agreement=0.0, k_max=3).gain < 1


def test_a_tokens_cost_grows_with_its_layers_less_what_is_not_computed_twice() -> None:
    flat = dict.fromkeys(range(1, 9), 1.0)
    assert estimated_token(flat, 0.2, 0.5, 7) == pytest.approx(0.2 + 0.5 * 0.8)
    steep = {rows: 1.0 + 0.1 * (rows - 1) for rows in range(1, 9)}
    assert estimated_token(steep, 0.2, 0.5, 7) == pytest.approx(0.2 + 0.5 * 0.7)
    assert estimated_token({1: 1.0, 8: 15.0}, 0.2, 0.5, 7) == 0.2


def test_the_exit_that_gains_most_is_taken() -> None:
    """Not the one that agrees most often, and not the cheapest."""
    flat = dict.fromkeys(range(1, 9), 1.0)
    best = best_exit({1: 0.05, 2: 0.6, 6: 0.65}, flat, 0.1, 8, 7)
    assert best == predicted(flat, estimated_token(flat, 0.1, 2 / 8, 7), 2, 0.6, 7)
    assert best.gain > 1
    assert best_exit({2: 0.2, 6: 0.99}, flat, 0.01, 40, 7).layers == 6


def test_what_is_measured_is_a_round_less_its_scoring_call(
    weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that every call moves: 3 for a draft, 10 for a scoring call, 8 after a draft."""
    scorer = LeanScorer(weights, Layout.plain(8), 64, TOKENS, exact=False)
    scorer.prefill(IDS[:9])
    now, drafted = [0.0], [False]
    score, early = scorer.score, scorer.score_early

    def slow_early(ids: list[int], layers: int) -> torch.Tensor:
        now[0], drafted[0] = now[0] + 3, True
        return early(ids, layers)

    def slow(ids: list[int]) -> torch.Tensor:
        now[0], drafted[0] = now[0] + (8 if drafted[0] else 10), False
        return score(ids)

    monkeypatch.setattr(scorer, "score_early", slow_early)
    monkeypatch.setattr(scorer, "score", slow)
    monkeypatch.setattr(exit_calibration, "perf_counter", lambda: now[0])
    assert exit_calibration.measured_token(scorer, 3, 2) == (2 * 3 + 8 - 10) / 2
    assert scorer.length == 9
    monkeypatch.setattr(exit_calibration, "PATIENCE", 0.0)
    before = now[0]
    assert exit_calibration.measured_token(scorer, 3, 2) == 2.0
    assert now[0] - before == 2 * 3 + 8 + 10  # once, however long that took


def test_a_head_takes_time(weights: Weights) -> None:
    assert exit_calibration.head_seconds(weights) > 0
