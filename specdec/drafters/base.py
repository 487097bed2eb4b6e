"""The drafter protocol: propose, then learn the outcome. It can be slow or wrong, never heard.

Knows token ids and laws; nothing of text, of the target's logits, or of who verifies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from specdec.drafters.plan import Offer as Offer
from specdec.noise import Noise
from specdec.request import Rule, Sampling
from specdec.sampling import Law


@dataclass(frozen=True, slots=True)
class Draft:
    """k proposed tokens. laws[j] is the law token j was drawn from; None = not drawn at random.

    `reason` says why there are none, where that is something the user should read.
    """

    tokens: tuple[int, ...] = ()
    laws: tuple[Law | None, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Context:
    """What a drafter may look at: every token so far, where the reply begins, how tokens are drawn.

    Under `match` the drafter draws with the target's own keyed noise (`noise`, stream "target") so
    that good drafts agree; under `reject` it draws from the stream "draft" and reports its laws.
    """

    tokens: Sequence[int]  # prompt and reply; the last one is not scored yet
    reply_start: int
    sampling: Sampling
    rule: Rule
    noise: Noise
    source: str = ""  # the offer that was taken; "" leaves it to the drafter
    least: tuple[float, ...] = ()  # see `Plan.least`


class Drafter(Protocol):
    """One conversation's drafter. `name` is what the page shows."""

    name: str
    wants_hidden: bool

    def begin(self, tokens: Sequence[int]) -> None:
        """A new reply starts after these tokens; keep whatever is a common prefix."""

    def offers(self, tokens: Sequence[int]) -> Sequence[Offer]:
        """Who could draft what follows `tokens`, the preferred one first; asked every round.

        From the tokens alone, and cheap: nothing is read by a model, nothing is drawn.
        """

    def catch_up(self, tokens: Sequence[int]) -> bool:
        """Read at most one chunk of what is not read yet; True when `propose` may be called.

        The turn calls it until True before it proposes from an offer that is `behind`, and looks
        for a cancel in between. A few last tokens may be left for the first step of `propose`.
        """

    def propose(self, context: Context, k: int) -> Draft:
        """At most k tokens to follow `context.tokens`; fewer, or none, is fine."""

    def settle(self, tokens: Sequence[int], accepted: int) -> None:
        """`tokens` is now the whole sequence; the first `accepted` of the last draft were kept."""
