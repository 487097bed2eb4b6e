"""How many threads compute: all for a prompt, as many as pay for a step. Knows torch and a clock.

Each of a step's hundreds of small calls waits for its slowest thread. With sleeping threads
(`torch_env`) one row of a small model is faster on fewer of them: SmolLM2 14 ms on one, 18 on two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from time import perf_counter

import torch

GAIN = 1.05
"""Fewer threads must be this many times as fast: less is noise, and long chats want more."""

TURNS = 8
"""Times each count is tried, beside one that warms up."""

PATIENCE = 1.0
"""Seconds after which measuring stops with what it has."""


@dataclass(frozen=True, slots=True)
class Taken:
    """How many threads make a step soonest; `reason` is "" where there was no choice."""

    count: int
    reason: str


@cache
def most() -> int:
    """The threads torch began with: the machine's cores, or what the environment says."""
    return torch.get_num_threads()


@contextmanager
def using(count: int) -> Iterator[None]:
    """Compute with `count` threads meanwhile. It costs nothing that could be measured."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def all_of_them() -> AbstractContextManager[None]:
    """For work that many threads share well, as reading a prompt."""
    return using(most())


def counts(available: int) -> list[int]:
    """What is tried: all, half of them, and so on down to one."""
    return [available >> shift for shift in range(available.bit_length())]


def choose(step: Callable[[], object], clock: Callable[[], float] = perf_counter) -> Taken:
    """Time `step`, a row for instance, by threads."""
    tried = counts(most())
    if len(tried) == 1:
        return Taken(tried[0], "")
    times = _least(step, tried, clock)
    best = tried[0]
    for count in tried[1:]:
        if times[count] * GAIN < times[best]:
            best = count
    told = ", ".join(f"{times[count] * 1e3:.1f} ms with {count}" for count in tried)
    return Taken(best, f"a step takes {told} threads, so {best} of {tried[0]} make it")


def _least(
    step: Callable[[], object], tried: Sequence[int], clock: Callable[[], float]
) -> dict[int, float]:
    """Least seconds by count, in turns. The first warms up, unless it used up `PATIENCE` alone."""
    times = dict.fromkeys(tried, float("inf"))
    began = clock()
    for turn in range(1 + TURNS):
        for count in tried:
            with using(count):
                start = clock()
                step()
                took = clock() - start
            times[count] = min(times[count], took)
        if clock() - began > PATIENCE:
            break
        if turn == 0:
            times = dict.fromkeys(tried, float("inf"))
    return times
