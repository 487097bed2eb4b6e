"""Draws of several rows at once: token for token those of `match`, and no stop on the way."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from specdec import draws, verify
from specdec.drafters.base import Draft, Held
from specdec.errors import EngineError
from specdec.noise import Noise
from specdec.request import Sampling
from specdec.sampling import draw
from specdec.verify import Outcome, Rows, judge, match, match_on_device

pytestmark = pytest.mark.usefixtures("one_thread")

INF = math.inf
KINDS = ("spread", "peaked", "ties", "equal", "gone", "one")


def logits_of(kind: str, rows: int, size: int, seed: int) -> Tensor:
    """[rows, size] of a kind that strains something: ties, -inf, flat, or sharp rows."""
    dice = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, size, generator=dice) * 3
    if kind == "peaked":
        x[:, 7 % size] += 12
    elif kind == "ties":
        x = (x * 1.5).round_()  # as bf16 has them: dozens of ids with equal scores
    elif kind == "equal":
        x.zero_()
    elif kind == "gone":
        x[torch.rand(rows, size, generator=dice) < 0.7] = -INF
        x[:, 0] = 1.0
    elif kind == "one":
        x.fill_(-INF)
        x[:, size // 2] = -3.0
    return x


def settings(dice: random.Random) -> Sampling:
    def either(*values: Any) -> Any:
        return dice.choice(values)

    return Sampling(
        temperature=either(0, 1e-30, 0.3, 0.8, 1.0, 2.5),
        top_k=either(0, 0, 1, 2, 5, 40, 700),
        top_p=either(1.0, 1.0, 1e-6, 0.3, 0.5, 0.9, 0.95, 0.99999),
        min_p=either(0.0, 0.0, 0.02, 0.3, 1.0),
        repetition_penalty=either(1.0, 1.0, 1.3, 0.7),
        frequency_penalty=either(0.0, 0.0, 0.5, -0.5),
        presence_penalty=either(0.0, 0.0, 0.7),
    )


def both(draft: Sequence[int], rows: Rows, noise: Noise, index: int) -> tuple[Outcome, Outcome]:
    made = Draft(tuple(draft), (None,) * len(draft))
    return (
        match(made, lambda j: rows.law(made, j), noise, index),
        match_on_device(made, rows, noise, index)[1],
    )


@pytest.mark.parametrize("size", [1, 5, 64, 65, 300, 1500, 9000])
def test_the_same_tokens_as_match(size: int) -> None:
    compare(size, range(30 if size > 5000 else 100))


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 63, 64, 129, 700, 4097, 9000])
def test_the_same_tokens_as_match_in_thousands(size: int) -> None:
    compare(size, range(1000, 2000))


def compare(size: int, cases: range) -> None:
    """Drafts that are right up to a random place, so that each count of kept tokens occurs."""
    dice, accepted = random.Random(size), [0] * 5
    for case in cases:
        k = dice.randint(0, 4)
        logits = logits_of(dice.choice(KINDS), k + 1, size, case)
        tokens = dice.choices(range(size + 2), k=dice.randint(1, 30))  # some beyond V
        rows = Rows(logits, settings(dice), tokens, dice.randint(0, len(tokens)))
        noise, index = Noise.of(case, [size]), dice.randint(0, 3)
        draft: list[int] = []
        right = dice.randint(0, k)
        while len(draft) < k:
            made = Draft(tuple(draft), (None,) * len(draft))
            x = draw(rows.law(made, len(draft)), noise, index + len(draft), "target")
            draft.append(x if len(draft) < right else dice.randrange(size + 1))
        true, mine = both(draft, rows, noise, index)
        assert mine == true, (case, rows.sampling)
        accepted[true.accepted] += 1
    assert min(accepted) > 0


def test_a_whole_vocabulary() -> None:
    dice = random.Random(1)
    for case, kind in enumerate(("spread", "peaked", "ties", "equal")):
        for top_p in (1.0, 0.95):
            logits = logits_of(kind, 3, 151_936, case)
            rows = Rows(logits, Sampling(temperature=1.0, top_p=top_p), [3, 4], 1)
            true, mine = both(dice.choices(range(9), k=2), rows, Noise.of(case, [2]), 0)
            assert mine == true


def sure_share(sampling: Sampling, kind: str, size: int = 20_000) -> float:
    """Share of draws that need no second look, over 80 rows."""
    sight = draws.Sight([1, 2], torch.zeros(7, dtype=torch.int64), 1)
    sure = 0
    for case in range(10):
        keys = torch.tensor(Noise.of(case, [1]).keys(0, 8, "target"))
        _, known = draws.draw_rows(logits_of(kind, 8, size, case), sampling, sight, keys)
        sure += int(known.sum())
    return sure / 80


def test_nearly_all_draws_are_sure() -> None:
    """Else the device would be read again and again, and nobody would notice."""
    assert sure_share(Sampling(temperature=0), "spread") == 1
    assert sure_share(Sampling(temperature=0.8), "spread") >= 0.99
    assert sure_share(Sampling(temperature=0.8, top_k=40, min_p=0.02), "ties") >= 0.99
    assert sure_share(Sampling(temperature=0.8, top_p=0.95), "peaked") >= 0.97
    assert sure_share(Sampling(temperature=0.8, top_p=0.9, top_k=200), "ties") >= 0.97


def test_a_short_prefix_costs_the_ids_outside_only() -> None:
    """The nucleus holds 90 % of 20,000 equal ids: those inside are still known to be."""
    assert 0.8 < sure_share(Sampling(temperature=1.0, top_p=0.9), "equal") < 0.98


def test_a_block_left_closed_may_hold_the_winner(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one block open the bound of the others is what tells."""
    monkeypatch.setattr(draws, "_OPEN", 1)
    for case in range(40):
        rows = Rows(logits_of("spread", 3, 1500, case), Sampling(temperature=2.5), [1], 1)
        true, mine = both([1, 2], rows, Noise.of(case, [3]), 0)
        assert mine == true


def test_an_unsure_draw_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(logits: Tensor, *_: object) -> tuple[Tensor, Tensor]:
        drawn = torch.tensor([9, 9, 9])
        return drawn, torch.tensor([False, True, True])

    monkeypatch.setattr(verify, "draw_rows", wrong)
    rows = Rows(torch.eye(3, 12), Sampling(temperature=0), [1], 1)
    draft = Draft((0, 9), (None, None))
    assert match_on_device(draft, rows, Noise(0, 0), 0) == (draft, Outcome(2, (0, 9, 9)))
    draft = Draft((1, 9), (None, None))
    assert match_on_device(draft, rows, Noise(0, 0), 0) == (draft, Outcome(0, (0,)))


@pytest.mark.parametrize("bad", [math.nan, INF, -INF])
@pytest.mark.parametrize("temperature", [0, 0.8])
def test_faulty_logits_are_a_fault_where_they_are_reached(bad: float, temperature: float) -> None:
    logits = logits_of("peaked", 2, 100, 0)
    logits[:, 7] += 30
    if bad == -INF:
        logits[1] = bad
    else:
        logits[1, 5] = bad
    rows = Rows(logits, Sampling(temperature=temperature), [1], 1)
    with pytest.raises(EngineError, match="scores"):
        match_on_device(Draft((7,), (None,)), rows, Noise(0, 0), 0)
    wrong = Draft((3,), (None,))
    assert match_on_device(wrong, rows, Noise(0, 0), 0) == (wrong, Outcome(0, (7,)))


@pytest.mark.parametrize("bad", [math.nan, INF, -INF])
@pytest.mark.parametrize("place", [slice(None), 69])
def test_a_row_without_numbers_draws_an_id_that_exists(bad: float, place: Any) -> None:
    """A held draft is scored before anyone sees its tokens; one beyond V would stop the device."""
    dice = random.Random(3)
    for case in range(60):
        logits = logits_of(dice.choice(KINDS), 1, 70, case)
        logits[:, slice(None) if bad == -INF else place] = bad  # a lone -inf is no fault
        sight = draws.Sight([1, 2], torch.zeros(1, dtype=torch.int64), 1)
        keys = torch.tensor(Noise.of(case, [1]).keys(0, 1, "target"))
        drawn, sure = draws.draw_rows(logits, settings(dice), sight, keys)
        assert 0 <= int(drawn) < 70
        assert not bool(sure)


class Watch(TorchDispatchMode):
    """Notes operations that make the host wait, and sorts."""

    def __init__(self) -> None:
        super().__init__()
        self.stops: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in ("_local_scalar_dense", "nonzero", "masked_select", "bincount", "sort"):
            self.stops.append(name)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("temperature", [0, 0.8])
def test_nothing_stops_and_nothing_sorts_on_the_way(temperature: float) -> None:
    sampling = Sampling(temperature, 40, 0.9, 0.02, 1.2, 0.1, 0.1)
    sight = draws.Sight([1, 2], torch.zeros(7, dtype=torch.int64), 1)
    keys = torch.tensor(Noise(0, 0).keys(0, 8, "target"))
    logits = logits_of("spread", 8, 2000, 0)
    with Watch() as watch:
        draws.draw_rows(logits, sampling, sight, keys)
    assert watch.stops == []
    with Watch() as watch:
        rows = Rows(logits[0:1], sampling, [1, 2], 1)
        judge("match", Draft(), rows, Noise(0, 0), 0)
    assert bool(watch.stops) is True  # the watch sees what the CPU's own path does


class Elsewhere:
    """Logits on some device, which count how often they are read."""

    def __init__(self, kind: str, logits: Tensor) -> None:
        self.device, self.reads, self._logits = SimpleNamespace(type=kind), 0, logits

    def cpu(self) -> Tensor:
        self.reads += 1
        return self._logits


@pytest.mark.parametrize(
    ("kind", "rule"), [("mps", "match"), ("mps", "reject"), ("cuda", "reject")]
)
@pytest.mark.parametrize("held", [False, True])
def test_rows_that_are_judged_here_are_read_once(kind: str, rule: Any, held: bool) -> None:
    logits = logits_of("spread", 4, 200, 1)
    here = Rows(logits, Sampling(temperature=0.9, top_p=0.9), [1, 2], 1)
    there: Any = Elsewhere(kind, logits)
    known, noise = Draft((5, 6, 7), (None,) * 3), Noise.of(1, [2])
    unread = Draft(held=Held(torch.tensor([5, 6, 7]), torch.ones(3), frozenset({-1})))
    draft, outcome = judge(rule, unread if held else known, replace(here, logits=there), noise, 0)
    assert (known, outcome) == judge(rule, known, here, noise, 0)
    assert draft == replace(known, tops=(1.0,) * 3 if held else ())
    assert there.reads == 1


def test_a_cuda_device_judges_match_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(verify, "match_on_device", lambda *rest: asked.append(rest))
    there: Any = Elsewhere("cuda", torch.zeros(1, 5))
    judge("match", Draft(), Rows(there, Sampling(), [1], 1), Noise(0, 0), 0)
    assert len(asked) == 1
    assert there.reads == 0
