"""Several drafters as one: copies where the text repeats, and models or heads elsewhere.

Which of them drafts is said each round, from the tokens so far and past outcomes, before any token
is drawn, so `reject` stays exact (DESIGN 4). Knows drafters; nothing of how one is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from specdec.drafters.base import Context, Draft, Drafter, Watcher
from specdec.drafters.ngram import NgramDrafter
from specdec.drafters.plan import Offer
from specdec.scorer import Scorer

LONG_ENOUGH = 4
"""Tokens of earlier text that must repeat before a copy stands against another draft."""


class AutoDrafter:
    """Offers a copy first, for nothing, then each of `models`, which have names of their own.

    One that is not asked does nothing: it reads what it missed when its turn comes, and its offer
    says how much that is. Of those that want the target's hidden states there may be one.
    """

    def __init__(self, name: str, models: Sequence[Drafter], lookup: NgramDrafter) -> None:
        self.name = name
        self.wants_hidden = any(model.wants_hidden for model in models)
        self.models = tuple(models)
        self.lookup = lookup
        self._by_name: dict[str, Drafter] = {one.name: one for one in (lookup, *models)}
        self._asked: Drafter = self.models[0] if models else lookup

    def watch(self, target: Scorer | None) -> None:
        """Those are told that want hidden states."""
        for model in self.models:
            if model.wants_hidden:
                cast(Watcher, model).watch(target)

    def begin(self, tokens: Sequence[int]) -> None:
        """All begin, which reads nothing."""
        self.lookup.begin(tokens)
        for model in self.models:
            model.begin(tokens)

    def offers(self, tokens: Sequence[int]) -> Sequence[Offer]:
        """A copy where enough of the last tokens were seen before, and every model."""
        copy = self.lookup.offers(tokens, LONG_ENOUGH)
        return (*copy, *(offer for model in self.models for offer in model.offers(tokens)))

    def take(self, source: str) -> None:
        """`catch_up` and `settle` are this one's until another is taken."""
        self._asked = self._by_name[source]

    def catch_up(self, tokens: Sequence[int]) -> bool:
        """Of the one that was taken; nobody else reads."""
        return self._asked.catch_up(tokens)

    def propose(self, context: Context, k: int) -> Draft:
        """From the source of the context; where that names none, from the first that offers."""
        able = (o.source for o in self.offers(context.tokens) if not o.blocked)
        self.take(context.source or next(able, self.lookup.name))
        return self._asked.propose(context, k)

    def settle(self, tokens: Sequence[int], accepted: int) -> None:
        """Only who drafted has something to forget."""
        self._asked.settle(tokens, accepted)
