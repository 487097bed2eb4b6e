"""What a step costs at each width, and which runner serves because of it.

Knows scorers and a clock; nothing of drafts or of who asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from time import perf_counter

import torch

from specdec import threads
from specdec.loading import Model
from specdec.pair import Choice
from specdec.runner import STEP
from specdec.scorer import Scorer
from specdec.selftest import check_finite as check_finite
from specdec.target import Kind, even_counts, open_scorer, prepare

ALLOWED = 1.4
"""An exact runner serves where its step costs at most this many of the fastest one (DESIGN 5).

Measured on a nearly empty cache, where the plain one reads a few slots and the exact one 256.
"""

CLEAR = 1.6
"""Where as many rows cost this many times one, an exact runner is not even measured."""

REPEATS = 30
"""Turns at most: steps of a few milliseconds need many to find a quiet moment."""

TRIES = 3
"""Times the exact runner is measured before it is refused: a busy moment makes it look dear."""

PATIENCE = 1.5
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
    """Least seconds of one `score` by rows. Leaves the scorer as long as it was."""
    return {w: t for (_, w), t in _alternate([(scorer, w) for w in widths], repeats).items()}


def reading_seconds(scorer: Scorer, repeats: int = 2) -> float:
    """Seconds a token takes to be read in a whole chunk, the first of `repeats` warming up.

    The step that waits for it is counted in. Leaves the scorer empty.
    """
    took, rows = 0.0, min(scorer.chunk, scorer.capacity - 1)
    for _ in range(repeats):
        scorer.rewind(0)
        start = perf_counter()
        scorer.prefill([0] * rows)
        _wait(scorer.score([0]).device)
        took = perf_counter() - start
    scorer.rewind(0)
    return took / rows


def choose_runner(model: Model, width: int, capacity: int, vocab: int) -> RunnerChoice:
    """Measure the plain and the exact runner on a short cache and choose; the reason has figures.

    The exact one pads a call to the next number of rows that the self-test found even. On a CPU
    steps are made by the threads that make the plain one soonest. Raises DeviceError when the model
    computes no numbers.
    """
    short = max(min(capacity, STEP), 2 * width + 2)
    fast = _warm(open_scorer(model, "fast", width, short, vocab, exact=False))
    by = _threads(fast) if model.device.type == "cpu" else ""
    chosen = _choose(model, fast, width, short, vocab)
    if not by:
        return chosen
    reason = f"{chosen.choice.reason}; {by}"
    return replace(chosen, choice=Choice(chosen.choice.value, reason))


def _threads(fast: Scorer) -> str:
    """Settle the threads of this process's steps; why so, "" where there was no choice."""
    length = fast.length

    def step() -> None:
        fast.score([0])
        fast.rewind(length)

    taken = threads.choose(step)
    torch.set_num_threads(taken.count)
    return taken.reason


def _choose(model: Model, fast: Scorer, width: int, short: int, vocab: int) -> RunnerChoice:
    widths = sorted({1, 3, 6, width} & set(range(1, width + 1)))
    even = even_counts(model, width, vocab)
    if not even:
        costs = step_seconds(fast, widths)
        why = model.reason or "this device gives other bits by place"
        return _inexact(costs, costs[1], why)
    if even[0] < width or _nearly_one(fast, width):
        kind: Kind = "static" if even == (width,) else "fast"
        exact = _warm(open_scorer(model, kind, width, short, vocab, exact=True))
        tried = sorted({even[0], width} | {*widths} & {*even})
        for _ in range(TRIES):
            times = _alternate([(fast, 1), *((exact, w) for w in tried)], REPEATS)
            costs, plain = {w: times[exact, w] for w in tried}, times[fast, 1]
            if costs[even[0]] <= ALLOWED * plain:
                return padded(costs, plain, even)
        step, costs = costs[even[0]], step_seconds(fast, widths)
    else:
        costs = step_seconds(fast, sorted({*widths, even[0]}))
        step, plain = costs[even[0]], costs[1]
    figures = f"{_ms(step)} for {even[0]} rows against {_ms(plain)} for 1"
    return _inexact(costs, costs[1], f"padding costs too much ({figures})")


def _nearly_one(fast: Scorer, rows: int) -> bool:
    """Whether `rows` may cost little more than one: asked before more is measured."""
    costs = step_seconds(fast, [1, rows], repeats=1)
    return costs[rows] <= CLEAR * costs[1]


def padded(costs: dict[int, float], plain: float, even: tuple[int, ...]) -> RunnerChoice:
    """The exact runner, which pads to the next of `even`; the last of them is the width.

    `costs` are its seconds by rows at some of these, `plain` is the unpadded step of one row.
    """
    width, step = even[-1], costs[even[0]]
    known = spread(costs)
    full = {w: known[next(n for n in even if n >= w)] for w in range(1, width + 1)}
    figures = f"{_ms(step)} for {even[0]} rows against {_ms(plain)} for 1"
    kind: Kind = "static" if even == (width,) else "fast"
    if even[0] == 1:
        why = "a row's result does not depend on how many are scored"
    elif kind == "static":
        why = f"same words at one width: {figures}"
    else:
        why = f"same words at {even[0]} rows and more: {figures}"
    return RunnerChoice(kind, Choice(kind, why), full, min(plain, step), exact=True)


def _inexact(costs: dict[int, float], plain: float, why: str) -> RunnerChoice:
    reason = f"same law, words may differ at near-ties: {why}"
    return RunnerChoice("fast", Choice("fast", reason), spread(costs), plain, exact=False)


def _alternate(jobs: Sequence[tuple[Scorer, int]], repeats: int) -> dict[tuple[Scorer, int], float]:
    """Least seconds of `score` for each (scorer, rows), in turns so that a slow spell hits all.

    The least, because whatever else runs only ever adds. The first turn warms up and is not
    counted, unless it alone took `PATIENCE`: steps so long have little to warm up. Ends early once
    `PATIENCE` is used up.
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
    return {job: min(times[job] for times in counted) for job in jobs}


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
    """Read a prompt, and refuse a model that computes no numbers before anyone waits for it.

    Calls are captured first, where they are: that is not to be timed.
    """
    prepare(scorer, lambda done, total: None)
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
