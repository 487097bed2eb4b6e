"""The share of drafted tokens kept, by depth, as outcomes are seen. Knows counts only."""

from __future__ import annotations

from collections.abc import Sequence

WEIGHT = 3.0
"""Outcomes a prior counts for: two rounds correct a wrong one."""


class Acceptance:
    """Decayed counts of what was drafted and kept at each depth 1 .. `depths`.

    `weight` is the outcomes that a prior counts for.
    """

    def __init__(self, depths: int, decay: float, weight: float = WEIGHT) -> None:
        self._decay = decay
        self._weight = weight
        self._kept = [0.0] * depths
        self._seen = [0.0] * depths

    def learn(self, drafted: int, accepted: int) -> None:
        """The first `accepted` of `drafted` were kept; the next, if any, was not."""
        for j in range(len(self._seen)):
            self._seen[j] *= self._decay
            self._kept[j] *= self._decay
        for j in range(min(drafted, accepted + 1, len(self._seen))):
            self._seen[j] += 1
            self._kept[j] += j < accepted

    def rates(self, hope: float, base: Sequence[float] = ()) -> list[float]:
        """a_1, a_2, ...: the share kept at each depth, of those whose forerunners were kept.

        The prior of depth 1 is `base`'s, else `hope`; that of a later depth is the estimate of the
        depth before, and the mean of it and `base`'s where there is one.
        """
        rates, before = list[float](), hope
        for j, (kept, seen) in enumerate(zip(self._kept, self._seen, strict=True)):
            prior = before
            if base:
                prior = base[0] if j == 0 else (before + base[j]) / 2
            before = (kept + prior * self._weight) / (seen + self._weight)
            rates.append(before)
        return rates
