"""How often a drafted token is kept, by the mass its draft gave it; whether one more is worth it.

Knows counts and a draft's own logits; nothing of models, of settings or of the target.
"""

from __future__ import annotations

import math
from bisect import bisect

from torch import Tensor

from specdec.drafters.base import Context

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


class Doubt:
    """Whether a draft goes on, from the masses of what it drew; learns from what was kept.

    By the masses of the law without settings: filters and temperature 0 make all look sure.
    """

    def __init__(self) -> None:
        self._confidence = Confidence()
        self._masses: list[float] = []  # of the last draft's tokens, where they were asked for

    def forget(self) -> None:
        """A new draft begins."""
        self._masses.clear()

    def unlikely(self, logits: Tensor, x: int, context: Context) -> bool:
        """Whether a token after x, and all before it, are kept with too small a chance."""
        if len(self._masses) >= len(context.least):
            return False
        least, wide = context.least[len(self._masses)], logits.float()
        self._masses.append(float((wide[x] - wide.logsumexp(0)).exp()))
        chances = [self._confidence.chance(mass) for mass in self._masses]
        return math.prod(chances) * self._confidence.mean < least

    def settle(self, accepted: int) -> None:
        """The first `accepted` tokens were kept; the next, if any, was not."""
        for place, mass in enumerate(self._masses[: accepted + 1]):
            self._confidence.learn(mass, place < accepted)
        self._masses.clear()
