"""How many tokens to draft: the k with the most expected tokens a second. Knows costs and counts.

Pure: no clock, no model, no text. It looks at past outcomes only, never at a sample, so `reject`
stays exact (DESIGN 4 and 6).
"""

from __future__ import annotations

from collections.abc import Mapping

_DECAY = 0.98  # an outcome 34 rounds ago counts half
_PRIOR = 0.9  # hopeful, so that drafting is tried before it is called off; two rounds correct it
_WEIGHT = 3.0  # outcomes the prior counts for; depth j + 1 takes depth j's estimate as prior
_SHARE = 0.03  # of the time of plain steps may go to asking again whether drafting pays
_CREDIT = 4.0  # plain steps that may be lost before anything was gained


class FixedLength:
    """Always k."""

    def __init__(self, k: int) -> None:
        self._k = k

    def choose(self) -> tuple[int, str]:
        """k, without a reason."""
        return self._k, ""

    def learn(self, drafted: int, accepted: int) -> None:
        """Nothing to learn."""


class LengthPolicy:
    """Maximises (1 + a_1 + a_1 a_2 + ...) / (k c_draft + c_score(k + 1)) over 0 <= k <= k_max.

    `costs_score[w]` is the seconds one scoring call of w rows takes (between measured widths: on
    the line between them), `cost_draft` the seconds one drafted token takes.

    Estimates can be wrong, so an account is kept of what drafting gained or lost against plain
    decoding. It begins with a few steps of credit, and a plain step adds 3 % of itself; nothing is
    drafted that the account could not pay for. So drafting never costs more than that.
    """

    def __init__(self, costs_score: Mapping[int, float], cost_draft: float, k_max: int) -> None:
        self._steps = [k * cost_draft + _cost(costs_score, k + 1) for k in range(k_max + 1)]
        self._kept = [0.0] * k_max  # decayed counts by depth
        self._seen = [0.0] * k_max
        self._account = _CREDIT * self._steps[0]  # seconds
        self._why = ""

    def choose(self) -> tuple[int, str]:
        """k for the next round; the reason when it is 0 because drafting does not pay."""
        if len(self._steps) == 1:
            return 0, ""
        k, _ = self._best(0)
        if k > 0 and self._account >= 0:
            self._why = ""
            return k, ""
        k, tokens = self._best(1)
        if self._account >= self._steps[k] - self._steps[0]:  # what it loses if nothing is kept
            return k, ""
        self._earn(_SHARE * self._steps[0])
        if not self._why:  # worded once, so that it is shown once
            times = self._steps[k] / self._steps[0]
            self._why = (
                f"Speculation is off: it does not pay here ({tokens:.2f} tokens a round "
                f"for {times:.2f} times the time of one). It is tried again now and then."
            )
        return 0, self._why

    def learn(self, drafted: int, accepted: int) -> None:
        """The first `accepted` of `drafted` were kept; the next, if any, was not."""
        self._earn((accepted + 1) * self._steps[0] - self._steps[drafted])
        for j in range(len(self._seen)):
            self._seen[j] *= _DECAY
            self._kept[j] *= _DECAY
        for j in range(min(drafted, accepted + 1, len(self._seen))):
            self._seen[j] += 1
            self._kept[j] += j < accepted

    def _earn(self, seconds: float) -> None:
        """Gains are kept up to a limit: an old success is no licence for a long loss."""
        self._account = min(self._account + seconds, 2 * _CREDIT * self._steps[0])

    def acceptance(self) -> list[float]:
        """a_1 .. a_k_max: the share kept at each depth, of those whose forerunners were kept."""
        rates, prior = list[float](), _PRIOR
        for kept, seen in zip(self._kept, self._seen, strict=True):
            prior = (kept + prior * _WEIGHT) / (seen + _WEIGHT)
            rates.append(prior)
        return rates

    def _best(self, least: int) -> tuple[int, float]:
        """The best k >= `least` and the tokens a round it is expected to give; ties: the least."""
        best, at, tokens = -1.0, least, 1.0
        expected, chain = 0.0, 1.0
        for k, rate in enumerate((1.0, *self.acceptance())):
            chain *= rate
            expected += chain
            if k >= least and expected / self._steps[k] > best:
                best, at, tokens = expected / self._steps[k], k, expected
        return at, tokens


def _cost(costs: Mapping[int, float], rows: int) -> float:
    """Seconds for `rows`: measured, between two measured widths, or that of the nearest."""
    below = max((w for w in costs if w <= rows), default=None)
    above = min((w for w in costs if w >= rows), default=None)
    if below is None or above is None:
        return costs[min(costs, key=lambda w: abs(w - rows))]
    if below == above:
        return costs[below]
    return costs[below] + (costs[above] - costs[below]) * (rows - below) / (above - below)
