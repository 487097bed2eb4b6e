"""Drafts with a model of other tokens. Knows its cache, two spellings and laws; nothing of files.

Two ways of Timor et al. 2025 (arXiv 2502.05202). Under `reject` the law is kept to the tokens that
both vocabularies have (token-level intersection), and the law drawn from is the one reported.
Under `match`, where no law is asked for, what the draft says is spelled anew by the target's
tokenizer (string-level exact match): tokens that the draft does not have are drafted as well.
"""

from __future__ import annotations

import codecs
from bisect import bisect
from collections.abc import Sequence

from torch import Tensor

from specdec.drafters.base import Context, Draft, Offer, drawn
from specdec.drafters.confidence import Doubt
from specdec.drafters.draft_cache import DraftCache
from specdec.drafters.reading import Reading, Tongue
from specdec.drafters.shared_tokens import SharedTokens
from specdec.sampling import Law
from specdec.scorer import Scorer


class TranslatedDrafter:
    """One scorer call a step, of which a drafted token takes one, seldom more or fewer.

    It reads the conversation in its own tokens (`Reading`), encoded anew from a little before what
    was added. `ends` are the target's end ids: nothing is drafted after one.
    """

    wants_hidden = False

    def __init__(
        self,
        scorer: Scorer,
        name: str,
        tongue: Tongue,
        shared: SharedTokens,
        ends: frozenset[int],
        reach: int = 0,
    ) -> None:
        self.name = name
        self._cache = DraftCache(scorer, reach)
        self._tongue = tongue
        self._reading = Reading(tongue)
        self._shared = shared
        self._ends = ends
        self._doubt = Doubt()
        self._drafted: tuple[int, ...] = ()  # respelled, and the bytes said up to each step of it
        self._said: list[int] = []

    def begin(self, tokens: Sequence[int]) -> None:
        """Keep the common prefix with what is cached, by the draft's ids."""
        self._keep(tokens)

    def offers(self, tokens: Sequence[int]) -> Sequence[Offer]:
        """Itself; nobody in the middle of a character that it cannot read."""
        ids = self._reading.read(tokens)
        return (self._cache.offer(self.name, ids),) if ids else ()

    def catch_up(self, tokens: Sequence[int]) -> bool:
        """Read one chunk of what is missing, in the draft's ids."""
        ids = self._reading.read(tokens)
        return not ids or self._cache.catch_up(ids)

    def propose(self, context: Context, k: int) -> Draft:
        """At most k tokens; none in the middle of a character that the draft cannot read.

        Fewer where one more is not likely enough to be kept. That is decided from the tokens drawn
        so far, and those stay: none is withdrawn, so `reject` stays exact (DESIGN 4).
        """
        ids = self._reading.read(context.tokens)
        if not ids:
            return Draft()
        while not self._cache.catch_up(ids):
            pass
        k = min(k, self._cache.most(ids))
        if k <= 0:
            return Draft(reason=self._cache.outgrown(self.name))
        self._doubt.forget()
        self._drafted, self._said = (), []
        fresh = self._cache.fresh(ids)
        if context.rule == "match":
            return self._respelled(context, fresh, k)
        return self._one_to_one(context, fresh, k)

    def _one_to_one(self, context: Context, fresh: list[int], k: int) -> Draft:
        """Each token is the target's id for one of the draft's, and has its law."""
        sequence, drafted, laws = list(context.tokens), list[int](), list[Law]()
        while True:
            logits = self._cache.read(fresh)
            q, x, mine = self._step(self._shared.row(logits), sequence, context)
            drafted.append(x)
            laws.append(q)
            if len(drafted) == k or x in self._ends or self._doubt.unlikely(logits, mine, context):
                return Draft(tuple(drafted), tuple(laws))
            fresh = [mine]
            sequence.append(x)

    def _respelled(self, context: Context, fresh: list[int], k: int) -> Draft:
        """k steps of what the draft says, as the target's tokenizer spells it: not one to one.

        A token of the target's is drawn with its own noise. No law is told, since `match` asks for
        none: under `reject` this would not be the law of any token.
        """
        said, drafted = b"", list[int]()
        while True:
            logits, sequence = self._cache.read(fresh), [*context.tokens, *drafted]
            _, x, mine = self._step(self._shared.whole_row(logits), sequence, context)
            if x in self._ends:
                drafted.append(x)
                break
            said += self._tongue.own(mine)
            self._said.append(len(said))
            drafted = list(self._tongue.respell(_whole(said)))
            if len(self._said) == k or self._doubt.unlikely(logits, mine, context):
                break
            fresh = [mine]
        self._drafted = tuple(drafted[:k])
        return Draft(self._drafted, (None,) * len(self._drafted))

    def _step(self, row: Tensor, sequence: Sequence[int], context: Context) -> tuple[Law, int, int]:
        """The law by the target's ids, what is drawn from it, and the draft's own id for that."""
        q, x = drawn(row, context, sequence)
        return q, x, self._shared.own(x)

    def settle(self, tokens: Sequence[int], accepted: int) -> None:
        """Forget what was not kept, and note how sure the draft was of what was and was not."""
        if self._said:  # of what was respelled: the steps whose text was kept as a whole
            words = (self._tongue.spell(token) or b"" for token in self._drafted[:accepted])
            accepted = bisect(self._said, sum(map(len, words)))
        self._doubt.settle(accepted)
        self._keep(tokens)

    def _keep(self, tokens: Sequence[int]) -> None:
        ids = self._reading.read(tokens)
        if ids is not None:  # else what is cached is looked at when the character is whole
            self._cache.keep(ids)


def _whole(said: bytes) -> str:
    """The text of some bytes, an unfinished character at the end left out."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(said)
