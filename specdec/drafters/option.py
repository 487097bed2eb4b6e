"""What a round could draft, and what is expected of it. Knows offers, rates and seconds only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from specdec.drafters.costs import DraftCost
from specdec.drafters.plan import Offer

_SPREAD = 32  # rounds over which what must be read first is expected to be of use


@dataclass(frozen=True, slots=True)
class Option:
    """k tokens of an offer: `tokens` are expected of the round, the bonus token included.

    `speed` is tokens a second, what must be read first spread over rounds. A `look` is presumed
    to be as good as hoped: it says what speed would then be reached, and drafts few tokens to see.
    """

    offer: Offer
    k: int
    tokens: float
    seconds: float
    reading: float
    speed: float
    look: bool = False


def lengths(
    offer: Offer, cost: DraftCost, rates: Sequence[float], score: Sequence[float]
) -> Iterator[Option]:
    """Each k from 1 to the number of `rates`, the share kept at each depth (DESIGN 6).

    `score[k]` is the seconds of the scoring call behind k drafted tokens.
    """
    expected, chain, reading = 1.0, 1.0, offer.behind * cost.read
    for k, rate in enumerate(rates, 1):
        chain *= rate
        expected += chain
        seconds = k * cost.token + score[k]
        speed = expected / (seconds + reading / _SPREAD)
        yield Option(offer, k, expected, seconds, reading, speed)


def best(options: Iterable[Option]) -> Option | None:
    """The fastest; of equals the first, which drafts least."""
    return max(options, key=lambda option: option.speed, default=None)
