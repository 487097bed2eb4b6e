"""How many tokens to draft, and who drafts them: the question, the answer, and the seam between.

Knows offers and outcomes only; nothing of how lengths are chosen (`length`), of text or of laws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Offer:
    """Someone who could draft the next tokens; said from the tokens so far, before any is drawn.

    `kind` is what acceptance is learned by ("" is `source`), `hope` the share kept that is expected
    before anything is known. `behind` tokens must be read first. `blocked` says why it cannot now.
    """

    source: str
    kind: str = ""
    behind: int = 0
    hope: float = 0.9
    blocked: str = ""

    @property
    def learned_by(self) -> str:
        """The name outcomes are noted under."""
        return self.kind or self.source


@dataclass(frozen=True, slots=True)
class Moment:
    """Where a reply stands: who could draft, at most how many tokens, and how many it has."""

    offers: Sequence[Offer] = ()
    most: int = 0
    made: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """k tokens from `source`; "" is the first offer that is not blocked.

    `reason` says why k, also when it is 0. `off` says that drafting was judged not to pay; a plan
    that is off may still draft now and then, to try again. Drafting may end after j < k
    tokens where the chance that one more is kept is below least[j - 1]. `news` is what the user
    should read of who drafts.
    """

    k: int
    reason: str = ""
    source: str = ""
    off: bool = False
    least: tuple[float, ...] = ()
    news: str = ""


class Length(Protocol):
    """Chooses a plan each round; learns from outcomes only, so that `reject` stays exact."""

    def choose(self, moment: Moment) -> Plan:
        """What to draft next."""

    def learn(self, kind: str, drafted: int, accepted: int) -> None:
        """The first `accepted` of `drafted` tokens were kept; they came from an offer's `kind`."""


@runtime_checkable
class Timed(Protocol):
    """A length that looks at what things take, too."""

    def took(self, source: str, drafted: int, drafting: float, scoring: float) -> None:
        """Seconds of drafting `drafted` tokens, all that was missed read before, and of scoring."""


def taken(plan: Plan, offers: Sequence[Offer]) -> Offer | None:
    """The offer a plan means; None when nothing is to be drafted, or by nobody who can."""
    if plan.k <= 0:
        return None
    able = (offer for offer in offers if not offer.blocked)
    return next((offer for offer in able if plan.source in ("", offer.source)), None)
