"""How many tokens to draft: the k and the source with the most expected tokens a second.

Pure: no clock, no model, no text. It looks at past outcomes and offers only, never at a sample, so
`reject` stays exact (DESIGN 4 and 6).
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from specdec.drafters.acceptance import Acceptance
from specdec.drafters.account import Account
from specdec.drafters.plan import Moment, Offer, Plan

_DECAY, _LONG_DECAY = 0.96, 0.995  # an outcome 17 rounds ago counts half; 138 for the pair
_SPREAD = 32  # rounds over which what must be read first is expected to be of use
_AGAIN = 1.05  # once off, drafting must promise this many times plain speed to be on
_EARLY = 10  # the reply's tenth token may not come later than plain decoding's,
_CLEARLY, _SAME = 0.75, 1.02  # so until then drafts must promise this share of its time, or be free
_FIRST = 4  # plain steps that stand for the speed before anything was drafted
_KEPT = 64  # conversations remembered


class FixedLength:
    """Always k, from whoever offers first."""

    def __init__(self, k: int) -> None:
        self._k = k

    def choose(self, moment: Moment) -> Plan:
        """k as it was asked for."""
        return Plan(self._k, "asked for" if self._k else "plain decoding")

    def learn(self, kind: str, drafted: int, accepted: int) -> None:
        """Nothing to learn."""


@dataclass(frozen=True, slots=True)
class DraftCost:
    """Seconds a source takes for a drafted token, and for one it must read before."""

    token: float = 0.0
    read: float = 0.0


FREE = DraftCost()


@dataclass(frozen=True, slots=True)
class _Option:
    offer: Offer
    k: int
    tokens: float  # expected of the round, bonus token included
    seconds: float
    reading: float

    @property
    def speed(self) -> float:
        return self.tokens / (self.seconds + self.reading / _SPREAD)


class Lengths:
    """What a loaded pair knows: step costs, the account, and acceptance over all conversations.

    `score[w]` is the seconds one scoring call of w rows takes (between measured widths: on the line
    between them); `drafts` the costs of each source that is not free.
    """

    def __init__(
        self, score: Mapping[int, float], drafts: Mapping[str, DraftCost], k_max: int
    ) -> None:
        self.score = [_cost(score, k + 1) for k in range(k_max + 1)]
        self.drafts = drafts
        self.k_max = k_max
        self.account = Account(self.score[0])
        self._seen: dict[str, Acceptance] = {}
        self._policies: OrderedDict[str, LengthPolicy] = OrderedDict()

    def of(self, conversation: str) -> LengthPolicy:
        """The conversation's own policy; the one not asked for the longest is forgotten."""
        if conversation not in self._policies:
            self._policies[conversation] = LengthPolicy(self)
        self._policies.move_to_end(conversation)
        if len(self._policies) > _KEPT:
            self._policies.popitem(last=False)
        return self._policies[conversation]

    def rates(self, kind: str, hope: float) -> list[float]:
        """The running average of a kind of draft: the prior of a conversation."""
        return self._of(kind).rates(hope)

    def learn(self, kind: str, drafted: int, accepted: int) -> None:
        """An outcome of any conversation."""
        self._of(kind).learn(drafted, accepted)

    def _of(self, kind: str) -> Acceptance:
        return self._seen.setdefault(kind, Acceptance(self.k_max, _LONG_DECAY))


class LengthPolicy:
    """Maximises (1 + a_1 + a_1 a_2 + ...) / (k c_draft + c_score(k + 1)) over sources and k.

    Estimates can be wrong, so nothing is drafted that the pair's `Account` could not pay for if
    none of it were kept. Acceptance is this conversation's, by kind of draft.
    """

    def __init__(self, pair: Lengths) -> None:
        self._pair = pair
        self._seen: dict[str, Acceptance] = {}
        self._off = False
        self._trying = False  # the last draft was a try
        self._drafted = 0.0  # seconds a token its drafts took
        self._tokens = self._seconds = 0.0  # of drafted rounds, the latest counting most

    def choose(self, moment: Moment) -> Plan:
        """The best plan that the account can pay; with its reason, also when nothing is drafted."""
        if moment.most <= 0:
            return self._plain("no room for a draft")
        options = list(self._options(moment))
        if not options:
            blocked = next((o.blocked for o in moment.offers if o.blocked), "")
            return self._plain(blocked or "no earlier text to copy")
        plain = 1 / self._pair.score[0]
        wanted = [o for o in options if o.speed > plain * (_AGAIN if self._off else 1.0)]
        paid = [o for o in wanted if self._affordable(o, False)]
        best = _best([o for o in paid if self._in_time(o, moment.made)])
        if best is not None:
            return self._take(best, False, f"{best.k} from {best.offer.source}: {self._odds(best)}")
        if paid:
            return self._plain(f"nothing that could make the first {_EARLY} tokens later")
        likely = _best(wanted) or _best(options)
        assert likely is not None
        self._off = True
        if moment.made >= _EARLY and self._affordable(likely, True):
            return self._take(
                likely,
                True,
                f"Speculation is off; {likely.k} from {likely.offer.source} to try it again.",
            )
        why = "it does not pay here" if not wanted else "trying it could cost more than it has won"
        return self._plain(
            f"Speculation is off: {why} ({self._odds(likely)}). It is tried again now and then."
        )

    def learn(self, kind: str, drafted: int, accepted: int) -> None:
        """The first `accepted` of `drafted` were kept; the next, if any, was not."""
        step = self._pair.score[0]
        spent = drafted * self._drafted + self._pair.score[min(drafted, self._pair.k_max)]
        self._pair.account.book(self._trying, (accepted + 1) * step - spent)
        self._tokens = self._tokens * _DECAY + accepted + 1
        self._seconds = self._seconds * _DECAY + spent
        self._pair.learn(kind, drafted, accepted)
        self._seen.setdefault(kind, Acceptance(self._pair.k_max, _DECAY)).learn(drafted, accepted)

    def acceptance(self, kind: str, hope: float = 0.9) -> list[float]:
        """a_1 .. a_k_max of this conversation, the pair's running average its prior."""
        base = self._pair.rates(kind, hope)
        known = self._seen.get(kind)
        return known.rates(hope, base) if known else base

    def _options(self, moment: Moment) -> Iterator[_Option]:
        for offer in moment.offers:
            if offer.blocked:
                continue
            cost = self._pair.drafts.get(offer.source, FREE)
            expected, chain = 1.0, 1.0
            rates = self.acceptance(offer.learned_by, offer.hope)
            for k, rate in enumerate(rates[: moment.most], 1):
                chain *= rate
                expected += chain
                seconds = k * cost.token + self._pair.score[k]
                yield _Option(offer, k, expected, seconds, offer.behind * cost.read)

    def _affordable(self, option: _Option, trying: bool) -> bool:
        loss = max(0.0, option.seconds - self._pair.score[0])
        return self._pair.account.affords(trying, loss, option.reading)

    def _in_time(self, option: _Option, made: int) -> bool:
        """Whether the reply's first tokens are expected clearly sooner, or as soon for nothing."""
        left, step = _EARLY - made, self._pair.score[0]
        if left <= 0 or option.reading + option.seconds <= step * _SAME:
            return True
        rounds = math.ceil(left / option.tokens)
        return option.reading + rounds * option.seconds <= _CLEARLY * left * step

    def _take(self, option: _Option, trying: bool, reason: str) -> Plan:
        self._off, self._trying = trying, trying
        self._drafted = self._pair.drafts.get(option.offer.source, FREE).token
        if option.reading:
            self._pair.account.read(trying, option.reading)
        return Plan(option.k, reason, option.offer.source, trying, self._least(option.k))

    def _least(self, k: int) -> tuple[float, ...]:
        """The chances at which a token more gains just the time it takes, at the speed so far.

        Not at the speed hoped for: a draft cut short by it would never reach it.
        """
        if not self._drafted:
            return ()
        step, score = self._pair.score[0], self._pair.score
        speed = (self._tokens + _FIRST) / (self._seconds + _FIRST * step)
        more = [self._drafted + score[j + 1] - score[j] for j in range(1, k)]
        return tuple(cost * max(speed, 1 / step) for cost in more)

    def _odds(self, option: _Option) -> str:
        times = option.seconds / self._pair.score[0]
        return f"{option.tokens:.2f} tokens a round for {times:.2f} times the time of one"

    def _plain(self, reason: str) -> Plan:
        self._pair.account.plain()
        return Plan(0, reason, off=self._off)


def _best(options: list[_Option]) -> _Option | None:
    """The fastest; of equals the first, which drafts least."""
    return max(options, key=lambda option: option.speed, default=None)


def _cost(costs: Mapping[int, float], rows: int) -> float:
    """Seconds for `rows`: measured, between two measured widths, or that of the nearest."""
    below = max((w for w in costs if w <= rows), default=None)
    above = min((w for w in costs if w >= rows), default=None)
    if below is None or above is None:
        return costs[min(costs, key=lambda w: abs(w - rows))]
    if below == above:
        return costs[below]
    return costs[below] + (costs[above] - costs[below]) * (rows - below) / (above - below)
