"""Drafts with a smaller model of the same tokens. Knows a cache and laws; nothing of the target."""

from __future__ import annotations

from collections.abc import Sequence

from specdec.draft_steps import draft_steps, on_device_scorer
from specdec.drafters.base import Context, Draft, Offer, drawn
from specdec.drafters.confidence import Doubt
from specdec.drafters.draft_cache import DraftCache
from specdec.sampling import Law
from specdec.scorer import Resident, Scorer


class ModelDrafter:
    """One scorer call a drafted token; what was missed meanwhile is read with the first.

    `vocab` is the number of ids the target knows: the draft's rows beyond it are never proposed.
    `ends` are the end ids: nothing is drafted after one. That is decided from x_<j, before x_j is
    drawn, so `reject` stays exact (DESIGN 4). `reach` is its cache's.
    """

    wants_hidden = False

    def __init__(
        self, scorer: Scorer, name: str, vocab: int, ends: frozenset[int], reach: int = 0
    ) -> None:
        self.name = name
        self._cache = DraftCache(scorer, reach)
        self._vocab = vocab
        self._ends = ends
        self._doubt = Doubt()

    def begin(self, tokens: Sequence[int]) -> None:
        """Keep the common prefix with what is cached, by ids."""
        self._cache.keep(tokens)

    def offers(self, tokens: Sequence[int]) -> Sequence[Offer]:
        """Itself, behind by what does not fit its first step; blocked once the chat outgrew it."""
        return (self._cache.offer(self.name, tokens),)

    def catch_up(self, tokens: Sequence[int]) -> bool:
        """Read one chunk, unless what is missing fits the first step, or all never can."""
        return self._cache.catch_up(tokens)

    def propose(self, context: Context, k: int) -> Draft:
        """At most k tokens; none, with the reason, once the chat outgrew the draft's window.

        Fewer where one more is not likely enough to be kept. That is decided from the tokens drawn
        so far, and those stay: none is withdrawn, so `reject` stays exact (DESIGN 4).
        """
        while not self.catch_up(context.tokens):
            pass
        k = min(k, self._cache.most(context.tokens))
        if k <= 0:
            return Draft(reason=self._cache.outgrown(self.name))
        sequence, drafted = list(context.tokens), list[int]()
        laws: list[Law] = []
        self._doubt.forget()
        fresh = self._cache.fresh(sequence)
        if scorer := on_device_scorer(self._cache.scorer, context):
            return self._stay(scorer, fresh, context, k)
        while True:
            logits = self._cache.read(fresh)[: self._vocab]
            q, x = drawn(logits, context, sequence)
            drafted.append(x)
            laws.append(q)
            if len(drafted) == k or x in self._ends or self._doubt.unlikely(logits, x, context):
                return Draft(tuple(drafted), tuple(laws))
            fresh = [x]
            sequence.append(x)

    def _stay(self, scorer: Resident, fresh: list[int], context: Context, k: int) -> Draft:
        """The same draft, unread; the ids that the scorer then holds are learned in `settle`."""
        held = draft_steps(scorer, fresh, context, k, self._vocab, self._ends)
        self._cache.note(fresh)
        return Draft(held=held)

    def settle(self, tokens: Sequence[int], accepted: int) -> None:
        """Forget what was not kept, and note how sure the draft was of what was and was not."""
        self._doubt.settle(accepted)
        self._cache.settle(tokens, accepted)
