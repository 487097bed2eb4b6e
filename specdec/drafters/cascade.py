"""Copies where the text repeats, and asks the draft model elsewhere. Knows two drafters only.

Which of them drafts is decided from the tokens so far, before any token is drawn, so `reject` stays
exact (DESIGN 4): a copy's law is one-hot, the model reports its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from specdec.drafters.base import Context, Draft, Drafter, Watcher
from specdec.drafters.ngram import NgramDrafter
from specdec.drafters.plan import Offer
from specdec.scorer import Scorer

LONG_ENOUGH = 4
"""Tokens of earlier text that must repeat before a copy stands against the model's draft."""


class CascadeDrafter:
    """Offers a copy first, for nothing, then the model; has the model's name.

    The model's cache is not touched while copies are drafted: it catches up when it is next asked,
    and its offer says how far it is behind.
    """

    def __init__(self, model: Drafter, lookup: NgramDrafter) -> None:
        self.name = model.name
        self.wants_hidden = model.wants_hidden
        self._model = model
        self._lookup = lookup
        self._asked: Drafter = model

    def watch(self, target: Scorer | None) -> None:
        """The model is told, where it wants hidden states."""
        if self.wants_hidden:
            cast(Watcher, self._model).watch(target)

    def begin(self, tokens: Sequence[int]) -> None:
        """Both begin."""
        self._lookup.begin(tokens)
        self._model.begin(tokens)

    def offers(self, tokens: Sequence[int]) -> Sequence[Offer]:
        """A copy where the last tokens were seen before, and the model."""
        return (*self._lookup.offers(tokens, LONG_ENOUGH), *self._model.offers(tokens))

    def catch_up(self, tokens: Sequence[int]) -> bool:
        """The model's; a copy needs none."""
        return self._model.catch_up(tokens)

    def propose(self, context: Context, k: int) -> Draft:
        """From the source of the context; where that names none, from the first that offers."""
        source = context.source or next((o.source for o in self.offers(context.tokens)), "")
        self._asked = self._lookup if source == self._lookup.name else self._model
        return self._asked.propose(context, k)

    def settle(self, tokens: Sequence[int], accepted: int) -> None:
        """Only who drafted has something to forget."""
        self._asked.settle(tokens, accepted)
