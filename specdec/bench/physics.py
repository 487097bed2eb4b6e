"""How fast plain decoding could be: bytes a token reads over the bandwidth measured here.

Knows tensors and a clock; nothing of models but their bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import torch

BIG = 1 << 29
"""Bytes of the buffer: far beyond any cache."""

REPEATS = 6


@dataclass(frozen=True, slots=True)
class Physics:
    """`bandwidth` in bytes a second, `step_bytes` the weights that one token reads."""

    bandwidth: float
    step_bytes: int
    how: str

    @property
    def limit(self) -> float:
        """Tokens a second that plain decoding cannot pass: each reads every weight once."""
        return self.bandwidth / self.step_bytes

    def share(self, tok_s: float) -> float:
        """Of the plain limit; speculation may pass 1."""
        return tok_s / self.limit


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
