"""What a step costs at each width, and which runner serves because of it.

Knows scorers and a clock; nothing of drafts or of who asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from time import perf_counter

import torch

from specdec.loading import Model
from specdec.pair import Choice
from specdec.runner import STEP
from specdec.scorer import Scorer
from specdec.selftest import check_finite as check_finite
from specdec.selftest import self_test as self_test
from specdec.target import Kind, is_exact, open_scorer

ALLOWED = 1.10
"""The static runner serves where its step costs at most this many steps of one row (DESIGN 5)."""

CLEAR = 1.5
"""Where as many rows cost this many times one, the static runner is not even measured."""

REPEATS = 5

PATIENCE = 2.0
"""Seconds after which measuring stops with what it has: a load should not wait on it."""


@dataclass(frozen=True, slots=True)
class RunnerChoice:
    """The runner that serves. `costs` are its seconds a call by rows, 1 to width.

    `plain_cost` is the fastest one-row step of either runner: the baseline of every claim.
    """

    runner: Kind
    choice: Choice
    costs: dict[int, float]
    plain_cost: float
    exact: bool


def step_seconds(scorer: Scorer, widths: Sequence[int], repeats: int = REPEATS) -> dict[int, float]:
    """Median seconds of one `score` by rows. Leaves the scorer as long as it was."""
    return {w: t for (_, w), t in _alternate([(scorer, w) for w in widths], repeats).items()}


def choose_runner(model: Model, width: int, capacity: int, vocab: int) -> RunnerChoice:
    """Measure both runners on a short cache and choose (DESIGN 5); the reason has the figures.

    Raises DeviceError when the model computes no numbers.
    """
    short = max(min(capacity, STEP), 2 * width + 2)
    fast = _warm(open_scorer(model, "fast", width, short, vocab))
    widths = sorted({1, 2, 4, 8, width} & set(range(1, width + 1)))
    if model.weights is None or fast.exact:
        costs = step_seconds(fast, widths)
        why = model.reason or "a row's result does not depend on how many are scored"
        reason = f"{why}: {_ms(costs[1])} for 1 row, {_ms(costs[width])} for {width}"
        return RunnerChoice("fast", Choice("fast", reason), spread(costs), costs[1], fast.exact)
    costs = step_seconds(fast, widths)
    if costs[width] > CLEAR * costs[1]:  # a static step scores as many rows, so it is as dear
        return decide(costs, costs[width], exact=False)
    static = _warm(open_scorer(model, "static", width, short, vocab, exact=False))
    times = _alternate([*((fast, w) for w in widths), (static, 1)], REPEATS)
    costs, fixed = {w: times[fast, w] for w in widths}, times[static, 1]
    cheap = fixed <= ALLOWED * costs[1]
    return decide(costs, fixed, cheap and is_exact(model, "static", width, vocab))


def decide(costs: dict[int, float], fixed: float, exact: bool) -> RunnerChoice:
    """Static against a fast runner that is not exact.

    `costs` are the fast one's seconds by rows, 1 to width; `fixed` is the static one's step, and
    `exact` what its self-test said, which is asked only where the step is cheap enough.
    """
    width, plain = max(costs), min(costs[1], fixed)
    figures = f"{_ms(fixed)} for {width} rows against {_ms(costs[1])} for 1"
    if exact and fixed <= ALLOWED * costs[1]:
        every = dict.fromkeys(range(1, width + 1), fixed)
        reason = f"same words at one width: {figures}"
        return RunnerChoice("static", Choice("static", reason), every, plain, True)
    cheap = fixed <= ALLOWED * costs[1]
    why = "gives other bits by place on this device" if cheap else "costs too much"
    reason = f"same law, words may differ at near-ties: one fixed width {why} ({figures})"
    return RunnerChoice("fast", Choice("fast", reason), spread(costs), plain, False)


def _alternate(jobs: Sequence[tuple[Scorer, int]], repeats: int) -> dict[tuple[Scorer, int], float]:
    """Median seconds of `score` for each (scorer, rows), in turns so that a slow spell hits all.

    The first turn warms up and is not counted, unless it alone took `PATIENCE`: steps so long
    have little to warm up. Ends early once `PATIENCE` is used up.
    """
    turns: list[dict[tuple[Scorer, int], float]] = []
    began = perf_counter()
    while len(turns) <= repeats and (not turns or perf_counter() - began < PATIENCE):
        times = {}
        for scorer, rows in jobs:
            length, start = scorer.length, perf_counter()
            logits = scorer.score([0] * rows)
            _wait(logits.device)
            times[scorer, rows] = perf_counter() - start
            scorer.rewind(length)
        turns.append(times)
    counted = turns[1:] or turns
    return {job: median(times[job] for times in counted) for job in jobs}


def spread(costs: dict[int, float]) -> dict[int, float]:
    """Costs for every width from the measured ones, on straight lines between them."""
    known = sorted(costs)
    full = {}
    for low, high in pairwise(known):
        for width in range(low, high):
            share = (width - low) / (high - low)
            full[width] = costs[low] * (1 - share) + costs[high] * share
    full[known[-1]] = costs[known[-1]]
    return full


def _warm(scorer: Scorer) -> Scorer:
    """Read a prompt, and refuse a model that computes no numbers before anyone waits for it."""
    scorer.prefill([0] * min(8, scorer.capacity // 2))
    check_finite(scorer.score([0]))
    scorer.rewind(scorer.length - 1)
    return scorer


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
