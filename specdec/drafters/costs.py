"""What drafting and scoring cost, in seconds. Knows numbers only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DraftCost:
    """Seconds a source takes for a drafted token, and for one it must read before.

    `net`: less what the scoring call then takes less, so that the two cannot be timed apart.
    """

    token: float = 0.0
    read: float = 0.0
    net: bool = False


FREE = DraftCost()


def by_length(costs: Mapping[int, float], k_max: int) -> list[float]:
    """Seconds of a scoring call behind k = 0 .. k_max drafted tokens, from costs by rows."""
    return [_cost(costs, k + 1) for k in range(k_max + 1)]


def _cost(costs: Mapping[int, float], rows: int) -> float:
    """Seconds for `rows`: measured, between two measured widths, or that of the nearest."""
    below = max((w for w in costs if w <= rows), default=None)
    above = min((w for w in costs if w >= rows), default=None)
    if below is None or above is None:
        return costs[min(costs, key=lambda w: abs(w - rows))]
    if below == above:
        return costs[below]
    return costs[below] + (costs[above] - costs[below]) * (rows - below) / (above - below)
