"""How fast this machine's memory is read. Knows tensors and a clock; nothing of models."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import torch

from specdec import threads

BIG = 1 << 29
"""Bytes of the buffer: far beyond any cache."""

REPEATS = 6


def read_bandwidth(device: torch.device) -> tuple[float, str]:
    """Bytes a second, the best of several passes over a big buffer, and how it was measured.

    On a CPU the buffer is read by all threads, by a sum and by a matrix with one vector; elsewhere
    it is copied, and a copy moves every byte twice.
    """
    numbers = torch.ones(BIG // 4, device=device)
    if device.type != "cpu":
        other = torch.empty_like(numbers)
        seconds = _best(lambda: other.copy_(numbers), device)
        return 2 * numbers.nbytes / seconds, "copy"
    matrix = numbers.view(-1, 4096)
    vector = torch.ones(4096)
    passes: dict[str, Callable[[], object]] = {
        "sum": numbers.sum,
        "matrix": lambda: matrix @ vector,
    }
    best = {how: numbers.nbytes / _best(run, device) for how, run in passes.items()}
    how = max(best, key=lambda name: best[name])
    return best[how], how


def _best(run: Callable[[], object], device: torch.device) -> float:
    """Least seconds of several; the first, which may touch fresh pages, never is."""
    seconds = []
    with threads.all_of_them():
        for _ in range(REPEATS):
            _wait(device)
            began = perf_counter()
            run()
            _wait(device)
            seconds.append(perf_counter() - began)
    return min(seconds)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
