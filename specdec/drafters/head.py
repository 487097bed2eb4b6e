"""Drafts a chain with a trained head, from what the target's own layers said of the text so far.

Knows a head's cache, states by position, and laws; nothing of tensors, of acceptance or of text.
Row i of the cache stands for token i + 1 and state i. What is drafted lies behind the rows of the
truth and is overwritten by them, since the target then has the states that the head had guessed.
"""

from __future__ import annotations

from collections.abc import Sequence

from specdec.drafters.base import Context, Draft, Offer, drawn
from specdec.drafters.confidence import Doubt
from specdec.heads.runner import HeadRunner
from specdec.heads.states import States
from specdec.request import MAX_K
from specdec.runner import LeanScorer
from specdec.sampling import Law
from specdec.scorer import Scorer

_STEP = MAX_K + 1
"""Rows at most to read with the first step: what a round can add."""

_UNTOLD = "No draft: the target's states of this text are not here."


class HeadDrafter:
    """One step of the head a drafted token; the first also reads what the last round added.

    `ends` are the end ids: nothing is drafted after one. States that are gone (a plain reply read
    the text, or it was a longer prompt than `States` keeps) are not computed anew: the head then
    begins with the first one that is there. It may know less, and is never wrong.
    """

    wants_hidden = True

    def __init__(self, head: HeadRunner, states: States, name: str, ends: frozenset[int]) -> None:
        self.name = name
        self._head = head
        self._states = states
        self._ends = ends
        self._start = 0  # position of the head's first row
        self._tokens: list[int] = []  # what the head's rows and fused states are of
        self._doubt = Doubt()

    def watch(self, target: Scorer | None) -> None:
        """A reply by `target` begins, or with None has ended. Raises ValueError: it has no layers.

        Between replies nobody asks for states, so that plain ones cost what they did.
        """
        self._states.open = False
        if target is None:
            return
        if not isinstance(target, LeanScorer):
            raise ValueError("this target does not hand out the states of its layers")
        target.watch(self._states)
        self._states.open = True

    def begin(self, tokens: Sequence[int]) -> None:
        """Keep what is of a common prefix, by ids."""
        self._keep(tokens)

    def offers(self, tokens: Sequence[int]) -> Sequence[Offer]:
        """Itself, behind by what does not fit its first step; blocked without states."""
        start, rows, known = self._kept(tokens)
        if not self._reachable(tokens, start + known):
            return (Offer(self.name, blocked=_UNTOLD),)
        if self._states.end > start + known and self._states.first > start + known:
            start, rows = self._states.first, 0
        missing = len(tokens) - 1 - start - rows
        return (Offer(self.name, behind=missing if missing > _STEP else 0),)

    def catch_up(self, tokens: Sequence[int]) -> bool:
        """Take over at most one chunk of states and of rows; True when few enough are left."""
        self._keep(tokens)
        head, states, end = self._head, self._states, len(tokens) - 1
        at = self._start + head.known
        if not self._reachable(tokens, at):
            return True
        if at < end:
            if states.first > at:
                head.rewind(0, 0)
                self._start = at = states.first
            head.absorb(states.take(at, min(end, at + head.chunk)))
        left = end - self._start - head.length
        if (count := min(head.chunk, left - 1, head.known - head.length)) > 0 and left > _STEP:
            first = self._start + head.length + 1
            head.fill(tokens[first : first + count])
        self._tokens = list(tokens)
        return self._start + head.known == end and end - self._start - head.length <= _STEP

    def propose(self, context: Context, k: int) -> Draft:
        """At most k tokens; none, with the reason, where the target's states are not here.

        Fewer where one more is not likely enough to be kept. That is decided from the tokens drawn
        so far, and those stay: none is withdrawn, so `reject` stays exact (DESIGN 4).
        """
        while not self.catch_up(context.tokens):
            pass
        sequence, head = list(context.tokens), self._head
        if self._start + head.known != len(sequence) - 1:
            return Draft(reason=_UNTOLD)
        k = min(k, head.capacity - head.known + 1)
        drafted, laws = list[int](), list[Law]()
        self._doubt.forget()
        logits = head.read(sequence[self._start + head.length + 1 :])
        while True:
            q, x = drawn(logits, context, sequence)
            drafted.append(x)
            laws.append(q)
            if len(drafted) == k or x in self._ends or self._doubt.unlikely(logits, x, context):
                return Draft(tuple(drafted), tuple(laws))
            sequence.append(x)
            logits = head.follow(x)

    def settle(self, tokens: Sequence[int], accepted: int) -> None:
        """Note how sure the head was of what was kept and what was not."""
        self._doubt.settle(accepted)

    def _reachable(self, tokens: Sequence[int], known: int) -> bool:
        """Whether the states up to the last token are known, or can be taken over."""
        return known == len(tokens) - 1 or self._states.end == len(tokens) - 1 > 0

    def _kept(self, tokens: Sequence[int]) -> tuple[int, int, int]:
        """Where the head begins, its rows and its states that still hold for `tokens`.

        State i follows from the tokens up to i; row i from token i + 1 as well. The last row is
        left out, to be read again for its logits.
        """
        same = min(len(self._tokens), len(tokens))
        if self._tokens[:same] != list(tokens[:same]):
            pairs = enumerate(zip(self._tokens, tokens, strict=False))
            same = next(i for i, (mine, true) in pairs if mine != true)
        known = min(self._head.known, same - self._start, len(tokens) - 1 - self._start)
        if known <= 0:
            return 0, 0, 0
        rows = min(self._head.length, same - 1 - self._start, len(tokens) - 2 - self._start)
        return self._start, max(0, rows), known

    def _keep(self, tokens: Sequence[int]) -> None:
        self._start, rows, known = self._kept(tokens)
        self._head.rewind(rows, known)
        del self._tokens[len(tokens) :]
