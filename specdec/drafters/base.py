"""The drafter protocol: propose, then learn the outcome. It can be slow or wrong, never heard.

Knows token ids and laws; nothing of text, of the target's logits, or of who verifies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from specdec.drafters.plan import Offer as Offer
from specdec.noise import Noise, Stream
from specdec.request import Rule, Sampling
from specdec.sampling import Law, draw, law
from specdec.scorer import Scorer


@dataclass(frozen=True, slots=True)
class Held:
    """k drafted tokens that only their device knows: the host reads them with the outcome.

    `ids` are int64 [k]; `tops`, float32 [k], the largest logit of each step, which tells of faults.
    Steps after one of `ends` were made in vain.
    """

    ids: Tensor
    tops: Tensor
    ends: frozenset[int]

    def after(self, token: int) -> Tensor:
        """The ids behind one that the host knows: int64 [k + 1]. Nobody waits for it."""
        return F.pad(self.ids, (1, 0), value=token)

    def flat(self) -> Tensor:
        """All there is to read: float32 [2k], in which ids below 2^24 are exact."""
        return torch.cat((self.ids.float(), self.tops))

    def told(self, flat: Sequence[float]) -> Draft:
        """The draft, once `flat` was read: nothing follows an end id."""
        k = len(flat) // 2
        tokens = tuple(int(token) for token in flat[:k])
        end = next((j for j, x in enumerate(tokens) if x in self.ends), k - 1)
        return Draft(tokens[: end + 1], (None,) * (end + 1), tops=tuple(flat[k:]))


@dataclass(frozen=True, slots=True)
class Draft:
    """k proposed tokens. laws[j] is the law token j was drawn from; None = not drawn at random.

    `reason` says why there are none, where that is something the user should read. With `held`,
    for `match` only, there are tokens that nobody has read yet; `tops` are what was read with them.
    """

    tokens: tuple[int, ...] = ()
    laws: tuple[Law | None, ...] = ()
    reason: str = ""
    held: Held | None = None
    tops: tuple[float, ...] = ()

    def read(self) -> Draft:
        """The same with its tokens; a held one makes the host wait."""
        return self if self.held is None else self.held.told(self.held.flat().tolist())


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


def drawn(logits: Tensor, context: Context, sequence: Sequence[int]) -> tuple[Law, int]:
    """The law of the token after `sequence`, from a draft's logits [V], and a token drawn from it.

    Shared noise under match, so that good drafts agree; never shared under reject (DESIGN 4).
    """
    stream: Stream = "target" if context.rule == "match" else "draft"
    q = law(logits, context.sampling, sequence, context.reply_start)
    return q, draw(q, context.noise, len(sequence) - context.reply_start, stream)


class Drafter(Protocol):
    """One conversation's drafter. `name` is what the page shows.

    One that `wants_hidden` reads the states of the target's layers: it is a `Watcher` as well.
    """

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


@runtime_checkable
class Several(Protocol):
    """What a drafter of several sources is told beside."""

    def take(self, source: str) -> None:
        """This offer was taken: `catch_up` and `settle` are its until another is."""


class Watcher(Protocol):
    """What a drafter that `wants_hidden` is told beside."""

    def watch(self, target: Scorer | None) -> None:
        """A reply by `target` begins, before anything is read; with None it has ended."""
