"""A draft model's cache of the sequence it reads: caught up after a pause, rewound after an edit.

Knows a Scorer and the draft's own ids; nothing of laws, of draws, or of what the target reads.
The cache is always a stretch of the sequence plus, after steps of its own, of the draft: from the
beginning, or from where it began anew when it was far behind.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from specdec.drafters.plan import Offer
from specdec.request import MAX_K
from specdec.scorer import Scorer

_STEP = MAX_K + 1
"""Tokens at most to read with the first step; more would make logits nobody looks at."""


class DraftCache:
    """With a `reach`, one that is behind by more than twice as many tokens begins anew with the
    last `reach`: a draft may know less, and reading costs time."""

    def __init__(self, scorer: Scorer, reach: int = 0) -> None:
        self.scorer = scorer
        self._reach = min(reach, scorer.capacity // 2)
        self._start = 0  # where in the sequence the cache begins
        self._cached: list[int] = []  # ids whose keys and values the scorer holds

    def offer(self, name: str, ids: Sequence[int]) -> Offer:
        """Behind by what does not fit the first step; blocked once the chat outgrew the cache."""
        missing = self._missing(ids)
        if self._far(missing):
            return Offer(name, behind=self._reach)
        blocked = self.outgrown(name) if len(ids) - self._start > self.scorer.capacity else ""
        return Offer(name, behind=missing if missing > self._step() else 0, blocked=blocked)

    def catch_up(self, ids: Sequence[int]) -> bool:
        """Read one chunk, unless what is missing fits the first step, or all never can."""
        self.keep(ids)
        if self._far(self._missing(ids)):
            self._forget(len(ids) - self._reach)
        read = len(ids) - self._start
        if read > self.scorer.capacity or self._missing(ids) <= self._step():
            return True
        done, chunk = self.scorer.length, self.scorer.chunk
        border = (done // chunk + 1) * chunk
        piece = list(ids[self._start + done : self._start + min(border, read - 1)])
        self.scorer.prefill(piece)
        self._cached += piece
        return self._missing(ids) <= self._step()

    def most(self, ids: Sequence[int]) -> int:
        """Tokens that may be drafted after `ids`: below 1 once the chat outgrew the cache."""
        return self.scorer.capacity - len(ids) + self._start + 1

    def fresh(self, ids: Sequence[int]) -> list[int]:
        """What a first step after `ids` must read."""
        return list(ids[self._start + self.scorer.length :])

    def read(self, fresh: list[int]) -> Tensor:
        """Append `fresh`; logits of the token after them: float32 [V]."""
        logits = self.scorer.score(fresh)[-1]
        self._cached += fresh
        return logits

    def note(self, fresh: Sequence[int]) -> None:
        """`fresh` was read by a scorer that went on by itself, with ids not known here."""
        self._cached += fresh

    def settle(self, ids: Sequence[int], accepted: int) -> None:
        """Learn the ids of an unread draft by what was kept of it; forget what was not kept."""
        unread = self.scorer.length - len(self._cached)
        place = self._start + len(self._cached)
        self._cached += ids[place : place + min(accepted, unread)]
        self.keep(ids)

    def keep(self, ids: Sequence[int]) -> None:
        """Rewind to the common prefix; the last token is left out, to be scored again (C13)."""
        start, room = self._start, len(ids) - self._start - 1
        kept = min(len(self._cached), max(0, room), self.scorer.length)
        if self._cached[:kept] != list(ids[start : start + kept]):
            pairs = enumerate(zip(self._cached, ids[start:], strict=False))
            kept = next(i for i, (mine, true) in pairs if mine != true)
        if kept == 0:
            self._forget(0)
            return
        if kept < self.scorer.length:  # also what a call that failed half-way left there
            self.scorer.rewind(kept)
        del self._cached[kept:]

    def outgrown(self, name: str) -> str:
        """Why nothing can be drafted any more."""
        window = self.scorer.capacity
        return f"No draft: the chat is longer than the {window} tokens {name} can read."

    def _forget(self, start: int) -> None:
        """Nothing is cached; what is read next begins at `start`."""
        self.scorer.rewind(0)
        self._cached.clear()
        self._start = start

    def _missing(self, ids: Sequence[int]) -> int:
        return len(ids) - self._start - self.scorer.length

    def _far(self, missing: int) -> bool:
        return 0 < 2 * self._reach < missing

    def _step(self) -> int:
        """Most tokens the first step may read; a border of the cache can make it few."""
        return min(_STEP, self.scorer.room())
