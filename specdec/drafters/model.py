"""Drafts with a smaller model of the same tokens. Knows a Scorer and laws; nothing of the target.

The draft's cache is always a prefix of the true tokens plus, after `propose`, of its own draft.
"""

from __future__ import annotations

from collections.abc import Sequence

from specdec.drafters.base import Context, Draft, Offer
from specdec.noise import Stream
from specdec.request import MAX_K
from specdec.sampling import Law, draw, law
from specdec.scorer import Scorer

_STEP = MAX_K + 1
"""Tokens at most to read with the first step; more would make logits nobody looks at."""


class ModelDrafter:
    """One scorer call a drafted token; what was missed meanwhile is read with the first.

    `vocab` is the number of ids the target knows: the draft's rows beyond it are never proposed.
    `ends` are the end ids: nothing is drafted after one. That is decided from x_<j, before x_j is
    drawn, so `reject` stays exact (DESIGN 4).
    """

    wants_hidden = False

    def __init__(self, scorer: Scorer, name: str, vocab: int, ends: frozenset[int]) -> None:
        self.name = name
        self._scorer = scorer
        self._vocab = vocab
        self._ends = ends
        self._cached: list[int] = []  # ids whose keys and values the scorer holds

    def begin(self, tokens: Sequence[int]) -> None:
        """Keep the common prefix with what is cached, by ids."""
        self._keep(tokens)

    def offers(self, tokens: Sequence[int]) -> Sequence[Offer]:
        """Itself, behind by what does not fit its first step; blocked once the chat outgrew it."""
        blocked = self._outgrown() if len(tokens) > self._scorer.capacity else ""
        missing = self._missing(tokens)
        behind = missing if missing > self._step() else 0
        return (Offer(self.name, behind=behind, blocked=blocked),)

    def catch_up(self, tokens: Sequence[int]) -> bool:
        """Read one chunk, unless what is missing fits the first step, or all never can."""
        self._keep(tokens)
        if len(tokens) > self._scorer.capacity or self._missing(tokens) <= self._step():
            return True
        done, chunk = self._scorer.length, self._scorer.chunk
        border = (done // chunk + 1) * chunk
        piece = list(tokens[done : min(border, len(tokens) - 1)])
        self._scorer.prefill(piece)
        self._cached += piece
        return self._missing(tokens) <= self._step()

    def propose(self, context: Context, k: int) -> Draft:
        """At most k tokens; none, with the reason, once the chat outgrew the draft's window."""
        k = min(k, self._scorer.capacity - len(context.tokens) + 1)
        if k <= 0:
            return Draft(reason=self._outgrown())
        while not self.catch_up(context.tokens):
            pass
        sequence, drafted = list(context.tokens), list[int]()
        laws: list[Law] = []
        fresh = sequence[self._scorer.length :]
        while True:
            q = self._law(context, sequence, fresh)
            x = draw(q, context.noise, len(sequence) - context.reply_start, _stream(context))
            drafted.append(x)
            laws.append(q)
            if len(drafted) == k or x in self._ends:
                return Draft(tuple(drafted), tuple(laws))
            fresh = [x]
            sequence.append(x)

    def settle(self, tokens: Sequence[int], accepted: int) -> None:
        """Forget what was not kept."""
        self._keep(tokens)

    def _law(self, context: Context, sequence: list[int], fresh: list[int]) -> Law:
        """q of the token after `sequence`, whose last tokens `fresh` are read now."""
        logits = self._scorer.score(fresh)[-1, : self._vocab]
        self._cached += fresh
        return law(logits, context.sampling, sequence, context.reply_start)

    def _keep(self, tokens: Sequence[int]) -> None:
        """Rewind to the common prefix; the last token is left out, to be scored again (C13)."""
        room = max(0, len(tokens) - 1)
        kept = min(len(self._cached), room, self._scorer.length)
        if self._cached[:kept] != list(tokens[:kept]):
            pairs = enumerate(zip(self._cached, tokens, strict=False))
            kept = next(i for i, (mine, true) in pairs if mine != true)
        if kept < self._scorer.length:  # also what a call that failed half-way left there
            self._scorer.rewind(kept)
        del self._cached[kept:]

    def _missing(self, tokens: Sequence[int]) -> int:
        return len(tokens) - self._scorer.length

    def _step(self) -> int:
        """Most tokens the first step may read; a border of the cache can make it few."""
        return min(_STEP, self._scorer.room())

    def _outgrown(self) -> str:
        window = self._scorer.capacity
        return f"No draft: the chat is longer than the {window} tokens {self.name} can read."


def _stream(context: Context) -> Stream:
    """Shared noise under match, so that good drafts agree; never shared under reject."""
    return "target" if context.rule == "match" else "draft"
