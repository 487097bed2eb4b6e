"""How often a drafted token is kept, by the mass its draft gave it. Knows counts only."""

from __future__ import annotations

from bisect import bisect

_EDGES = (0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.99)
_HOPE = (0.15, 0.35, 0.55, 0.7, 0.85, 0.92, 0.96, 0.99)  # share kept, before any is known
_WEIGHT = 2.0  # outcomes that hope counts for
_DECAY = 0.99  # an outcome 69 tokens ago counts half


class Confidence:
    """The share kept among tokens of like mass, and among all.

    A draft's own masses say where it is sure, not how often it is right: that is learned here.
    """

    def __init__(self) -> None:
        self._kept = [0.0] * len(_HOPE)
        self._seen = [0.0] * len(_HOPE)

    def learn(self, mass: float, kept: bool) -> None:
        """What became of a drafted token whose forerunners were all kept."""
        for j in range(len(_HOPE)):
            self._kept[j] *= _DECAY
            self._seen[j] *= _DECAY
        place = bisect(_EDGES, mass)
        self._kept[place] += kept
        self._seen[place] += 1

    def chance(self, mass: float) -> float:
        """How likely a token of this mass is kept, if those before it are."""
        place = bisect(_EDGES, mass)
        hoped = _HOPE[place] * _WEIGHT
        return (self._kept[place] + hoped) / (self._seen[place] + _WEIGHT)

    @property
    def mean(self) -> float:
        """How likely one is kept whose mass is not known yet."""
        return (sum(self._kept) + 0.8 * _WEIGHT) / (sum(self._seen) + _WEIGHT)
