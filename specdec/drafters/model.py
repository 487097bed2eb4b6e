"""Drafts with a smaller model of the same tokens. Knows a Scorer and laws; nothing of the target.

The draft's cache is always a stretch of the true tokens plus, after `propose`, of its own draft:
from their beginning, or from where it began anew when it was far behind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from specdec.draft_steps import draft_steps, on_device_scorer
from specdec.drafters.base import Context, Draft, Offer
from specdec.drafters.confidence import Confidence
from specdec.noise import Stream
from specdec.request import MAX_K
from specdec.sampling import Law, draw, law
from specdec.scorer import Resident, Scorer

_STEP = MAX_K + 1
"""Tokens at most to read with the first step; more would make logits nobody looks at."""


class ModelDrafter:
    """One scorer call a drafted token; what was missed meanwhile is read with the first.

    `vocab` is the number of ids the target knows: the draft's rows beyond it are never proposed.
    `ends` are the end ids: nothing is drafted after one. That is decided from x_<j, before x_j is
    drawn, so `reject` stays exact (DESIGN 4). With a `reach`, one that is behind by more than twice
    as many tokens begins anew with the last `reach`: a draft may know less, and reading costs time.
    """

    wants_hidden = False

    def __init__(
        self, scorer: Scorer, name: str, vocab: int, ends: frozenset[int], reach: int = 0
    ) -> None:
        self.name = name
        self._scorer = scorer
        self._vocab = vocab
        self._ends = ends
        self._reach = min(reach, scorer.capacity // 2)
        self._start = 0  # where in the tokens the cache begins
        self._cached: list[int] = []  # ids whose keys and values the scorer holds
        self._confidence = Confidence()
        self._masses: list[float] = []  # of the last draft's tokens, where they were asked for

    def begin(self, tokens: Sequence[int]) -> None:
        """Keep the common prefix with what is cached, by ids."""
        self._keep(tokens)

    def offers(self, tokens: Sequence[int]) -> Sequence[Offer]:
        """Itself, behind by what does not fit its first step; blocked once the chat outgrew it."""
        missing = self._missing(tokens)
        if self._far(missing):
            return (Offer(self.name, behind=self._reach),)
        blocked = self._outgrown() if len(tokens) - self._start > self._scorer.capacity else ""
        behind = missing if missing > self._step() else 0
        return (Offer(self.name, behind=behind, blocked=blocked),)

    def catch_up(self, tokens: Sequence[int]) -> bool:
        """Read one chunk, unless what is missing fits the first step, or all never can."""
        self._keep(tokens)
        if self._far(self._missing(tokens)):
            self._forget(len(tokens) - self._reach)
        read = len(tokens) - self._start
        if read > self._scorer.capacity or self._missing(tokens) <= self._step():
            return True
        done, chunk = self._scorer.length, self._scorer.chunk
        border = (done // chunk + 1) * chunk
        piece = list(tokens[self._start + done : self._start + min(border, read - 1)])
        self._scorer.prefill(piece)
        self._cached += piece
        return self._missing(tokens) <= self._step()

    def propose(self, context: Context, k: int) -> Draft:
        """At most k tokens; none, with the reason, once the chat outgrew the draft's window.

        Fewer where one more is not likely enough to be kept. That is decided from the tokens drawn
        so far, and those stay: none is withdrawn, so `reject` stays exact (DESIGN 4).
        """
        while not self.catch_up(context.tokens):
            pass
        k = min(k, self._scorer.capacity - len(context.tokens) + self._start + 1)
        if k <= 0:
            return Draft(reason=self._outgrown())
        sequence, drafted = list(context.tokens), list[int]()
        laws: list[Law] = []
        self._masses.clear()
        fresh = sequence[self._start + self._scorer.length :]
        if scorer := on_device_scorer(self._scorer, context):
            return self._stay(scorer, fresh, context, k)
        while True:
            logits = self._logits(fresh)
            q = law(logits, context.sampling, sequence, context.reply_start)
            x = draw(q, context.noise, len(sequence) - context.reply_start, _stream(context))
            drafted.append(x)
            laws.append(q)
            if len(drafted) == k or x in self._ends or self._unlikely(logits, x, context):
                return Draft(tuple(drafted), tuple(laws))
            fresh = [x]
            sequence.append(x)

    def _stay(self, scorer: Resident, fresh: list[int], context: Context, k: int) -> Draft:
        """The same draft, unread; the ids that the scorer then holds are learned in `settle`."""
        held = draft_steps(scorer, fresh, context, k, self._vocab, self._ends)
        self._cached += fresh
        return Draft(held=held)

    def settle(self, tokens: Sequence[int], accepted: int) -> None:
        """Forget what was not kept, and note how sure the draft was of what was and was not."""
        for place, mass in enumerate(self._masses[: accepted + 1]):
            self._confidence.learn(mass, place < accepted)
        self._masses.clear()
        unread = self._scorer.length - len(self._cached)
        place = self._start + len(self._cached)
        self._cached += tokens[place : place + min(accepted, unread)]
        self._keep(tokens)

    def _logits(self, fresh: list[int]) -> Tensor:
        """Of the token after `fresh`, which are read now: [V]."""
        logits = self._scorer.score(fresh)[-1, : self._vocab]
        self._cached += fresh
        return logits

    def _unlikely(self, logits: Tensor, x: int, context: Context) -> bool:
        """Whether a token after x, and all before it, are kept with too small a chance.

        By the masses of the law without settings: filters and temperature 0 make all look sure.
        """
        if len(self._masses) >= len(context.least):
            return False
        least, wide = context.least[len(self._masses)], logits.float()
        self._masses.append(float((wide[x] - wide.logsumexp(0)).exp()))
        chances = [self._confidence.chance(mass) for mass in self._masses]
        return math.prod(chances) * self._confidence.mean < least

    def _keep(self, tokens: Sequence[int]) -> None:
        """Rewind to the common prefix; the last token is left out, to be scored again (C13)."""
        start, room = self._start, len(tokens) - self._start - 1
        kept = min(len(self._cached), max(0, room), self._scorer.length)
        if self._cached[:kept] != list(tokens[start : start + kept]):
            pairs = enumerate(zip(self._cached, tokens[start:], strict=False))
            kept = next(i for i, (mine, true) in pairs if mine != true)
        if kept == 0:
            self._forget(0)
            return
        if kept < self._scorer.length:  # also what a call that failed half-way left there
            self._scorer.rewind(kept)
        del self._cached[kept:]

    def _forget(self, start: int) -> None:
        """Nothing is cached; what is read next begins at `start`."""
        self._scorer.rewind(0)
        self._cached.clear()
        self._start = start

    def _missing(self, tokens: Sequence[int]) -> int:
        return len(tokens) - self._start - self._scorer.length

    def _far(self, missing: int) -> bool:
        return 0 < 2 * self._reach < missing

    def _step(self) -> int:
        """Most tokens the first step may read; a border of the cache can make it few."""
        return min(_STEP, self._scorer.room())

    def _outgrown(self) -> str:
        window = self._scorer.capacity
        return f"No draft: the chat is longer than the {window} tokens {self.name} can read."


def _stream(context: Context) -> Stream:
    """Shared noise under match, so that good drafts agree; never shared under reject."""
    return "target" if context.rule == "match" else "draft"
