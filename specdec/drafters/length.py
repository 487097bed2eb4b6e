"""How many tokens to draft: the k and the source with the most expected tokens a second.

Pure: no clock, no model, no text. It looks at past outcomes and offers only, never at a sample, so
`reject` stays exact (DESIGN 4 and 6).
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from specdec.drafters.acceptance import Acceptance
from specdec.drafters.account import Account
from specdec.drafters.costs import FREE, by_length
from specdec.drafters.costs import DraftCost as DraftCost
from specdec.drafters.favourite import Favourite
from specdec.drafters.option import Option, best, lengths
from specdec.drafters.outcomes import Outcomes
from specdec.drafters.plan import Moment, Offer, Plan
from specdec.drafters.scouting import LOOK, REST, Scouting
from specdec.drafters.stopwatch import Stopwatch

_DECAY, _LONG_DECAY = 0.96, 0.995  # a round 17 rounds ago counts half; 138 for the pair
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


class Lengths:
    """What a loaded pair knows: step costs, the account, and acceptance over all conversations.

    `score[w]` is the seconds one scoring call of w rows takes (between measured widths: on the line
    between them); `drafts` the costs of each source that is not free. With `auto` several compete:
    each is looked at again now and then, and the user reads which one is moved to.
    """

    def __init__(
        self,
        score: Mapping[int, float],
        drafts: Mapping[str, DraftCost],
        k_max: int,
        auto: bool = False,
    ) -> None:
        self.score = by_length(score, k_max)
        self.drafts = drafts
        self.k_max = k_max
        self.auto = auto
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
    none of it were kept. Acceptance is this conversation's, by kind of draft. With `auto`, a source
    that rested is presumed to be as good as hoped, if that would make it the fastest and `Scouting`
    can pay a look that finds nothing; what was known of it is then forgotten.
    """

    def __init__(self, pair: Lengths) -> None:
        self._pair = pair
        self._outcomes = Outcomes(pair.k_max, pair.rates)
        self._stopwatch = Stopwatch()
        self._off = False
        self._trying = False  # the last draft was a try
        self._taken: Option | None = None
        self._drafted = 0.0  # seconds a token its drafts took
        self._scouting = Scouting(pair.score[0])
        self._favourite = Favourite()
        self._tokens = self._seconds = 0.0  # of drafted rounds, the latest counting most

    def choose(self, moment: Moment) -> Plan:
        """The best plan that the account can pay; with its reason, also when nothing is drafted."""
        plan = self._choose(moment)
        if not self._pair.auto:
            return plan
        step = self._pair.score[0]
        costs = {source: self._cost(source).token / step for source in self._pair.drafts}
        return replace(plan, news=self._favourite.news(costs))

    def _choose(self, moment: Moment) -> Plan:
        if moment.most <= 0:
            return self._plain("no room for a draft")
        options = self._options(moment)
        if not options:
            blocked = next((o.blocked for o in moment.offers if o.blocked), "")
            return self._plain(blocked or "no earlier text to copy")
        plain = 1 / self._pair.score[0]
        wanted = [o for o in options if o.speed > plain * (_AGAIN if self._off else 1.0)]
        paid = [o for o in wanted if self._proven(o) and self._affordable(o, False)]
        fastest = best([o for o in paid if self._in_time(o, moment.made)])
        if fastest is not None:
            again = " to look at it again" if fastest.look else ""
            who = f"{fastest.k} from {fastest.offer.source}{again}"
            return self._take(fastest, False, f"{who}: {self._odds(fastest)}")
        if paid:
            return self._plain(f"nothing that could make the first {_EARLY} tokens later")
        likely = best(wanted) or best(options)
        assert likely is not None
        self._off = True
        if moment.made >= _EARLY and self._affordable(likely, True):
            return self._take(
                likely,
                True,
                f"Speculation is off; this round tries {likely.k} from {likely.offer.source}.",
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
        self._note(accepted + 1, spent)
        self._tokens = self._tokens * _DECAY + accepted + 1
        self._seconds = self._seconds * _DECAY + spent
        self._pair.learn(kind, drafted, accepted)
        self._outcomes.learn(kind, drafted, accepted)

    def took(self, source: str, drafted: int, drafting: float, scoring: float) -> None:
        """See `Timed`; with `auto` costs are those of this conversation."""
        expected = drafted * self._pair.drafts.get(source, FREE).token
        if self._pair.auto and expected:
            score = self._pair.score[min(drafted, self._pair.k_max)]
            self._stopwatch.took(source, drafting / expected, scoring / score)

    def acceptance(self, kind: str, hope: float = 0.9) -> list[float]:
        """a_1 .. a_k_max of this conversation, the pair's running average its prior."""
        return self._outcomes.rates(kind, hope)

    def _cost(self, source: str) -> DraftCost:
        return self._stopwatch.corrected(source, self._pair.drafts.get(source, FREE))

    def _options(self, moment: Moment) -> list[Option]:
        able = [offer for offer in moment.offers if not offer.blocked]
        options = list[Option]()
        for offer in able:
            rates = self.acceptance(offer.learned_by, offer.hope)
            options += self._lengths(offer, rates[: moment.most])
        if self._pair.auto and (look := self._look(able, moment.most, best(options))):
            options.append(look)
        return options

    def _lengths(self, offer: Offer, rates: Sequence[float]) -> list[Option]:
        return list(lengths(offer, self._cost(offer.source), rates, self._pair.score))

    def _look(self, able: list[Offer], most: int, known: Option | None) -> Option | None:
        """A short draft of who rested longest of those that could be the fastest, if it is paid."""
        speed = max(1 / self._pair.score[0], known.speed if known else 0.0)
        found = list[tuple[int, float, Option]]()
        for offer in able:
            rest = self._scouting.rest(offer.source)
            tries = self._lengths(offer, [offer.hope] * most)
            hoped = best(tries)
            if rest >= REST and hoped is not None and hoped.speed > speed:
                found.append((rest, hoped.speed, tries[min(LOOK, hoped.k) - 1]))
        if not found:
            return None
        _, hoped_speed, option = max(found, key=lambda one: one[:2])
        if not self._scouting.affords(option.seconds + option.reading - self._pace()):
            return None
        return replace(option, speed=hoped_speed, look=True)

    def _proven(self, option: Option) -> bool:
        """Once off, looking does not turn drafting on again: that takes outcomes."""
        looking = option.look or self._scouting.looking(option.offer.source)
        return not (self._off and looking)

    def _affordable(self, option: Option, trying: bool) -> bool:
        loss = max(0.0, option.seconds - self._pair.score[0])
        return self._pair.account.affords(trying, loss, option.reading)

    def _in_time(self, option: Option, made: int) -> bool:
        """Whether the reply's first tokens are expected clearly sooner, or as soon for nothing."""
        left, step = _EARLY - made, self._pair.score[0]
        if left <= 0 or option.reading + option.seconds <= step * _SAME:
            return True
        rounds = math.ceil(left / option.tokens)
        return option.reading + rounds * option.seconds <= _CLEARLY * left * step

    def _take(self, option: Option, trying: bool, reason: str) -> Plan:
        free = option.reading + option.seconds <= self._pair.score[0] * _SAME
        self._off = trying or (self._off and free)  # a copy for nothing is no news
        self._trying, self._taken = trying, option
        self._scouting.ask(option.offer.source, option.look)
        if option.look:
            self._outcomes.forget(option.offer.learned_by)
        self._drafted = self._cost(option.offer.source).token
        if option.reading:
            self._pair.account.read(trying, option.reading)
        return Plan(option.k, reason, option.offer.source, self._off, self._least(option.k))

    def _least(self, k: int) -> tuple[float, ...]:
        """The chances at which a token more gains just the time it takes, at the speed so far.

        Not at the speed hoped for: a draft cut short by it would never reach it.
        """
        if not self._drafted:
            return ()
        score = self._pair.score
        more = [self._drafted + score[j + 1] - score[j] for j in range(1, k)]
        return tuple(cost / self._pace() for cost in more)

    def _pace(self) -> float:
        """Seconds a token of the latest drafted rounds, or of plain decoding where that is less."""
        step = self._pair.score[0]
        return min(step, (self._seconds + _FIRST * step) / (self._tokens + _FIRST))

    def _note(self, tokens: int, seconds: float) -> None:
        """What a drafted round gave, for who is looked at, and for who drafts mostly."""
        if self._taken is not None:
            lost = seconds + self._taken.reading - tokens * self._pace()
            self._scouting.outcome(self._taken.offer.source, lost)
            if not self._trying:
                self._favourite.note(self._taken.offer.source, tokens)
        self._scouting.passed(seconds)

    def _odds(self, option: Option) -> str:
        times = option.seconds / self._pair.score[0]
        return f"{option.tokens:.2f} tokens a round for {times:.2f} times the time of one"

    def _plain(self, reason: str) -> Plan:
        self._pair.account.plain()
        self._scouting.passed(self._pair.score[0])
        return Plan(0, reason, off=self._off)
