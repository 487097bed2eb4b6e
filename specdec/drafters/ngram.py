"""Drafts by copying what followed where the last tokens stood before. Knows token ids only.

Of the longest run of last tokens that occurs earlier in prompt and reply (`automaton`), or in
earlier replies on this machine where a store is lent (`store`), what followed the most recent such
place. The conversation wins a tie. Deterministic, so its law is one-hot: `laws` are None.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from specdec.drafters.automaton import Automaton
from specdec.drafters.base import Context, Draft, Offer

SHORTEST = 2
"""Tokens of a run that is worth a copy."""

MOST = 1 << 16
"""Tokens held; of a longer text the older half is forgotten."""

_RUNS = ((2, "short run", 0.4), (4, "run", 0.6), (8, "long run", 0.8), (16, "passage", 0.9))
"""From how many tokens on a run is called what, and the share of a copy hoped to be kept: how
often copies are kept is learned for each name apart, and so how many tokens are copied."""

_PASSAGE = 16

_TAIL = 64  # last tokens compared, of a sequence that was compared as a whole


class Earlier(Protocol):
    """Earlier texts to copy from, beside the conversation's own."""

    def find(self, tokens: Sequence[int], least: int) -> tuple[int, int]:
        """(run, place): the longest run of last tokens there, of at least `least`; else (0, 0)."""

    def after(self, place: int, k: int) -> tuple[int, ...]:
        """At most k tokens that follow a place."""


class NgramDrafter:
    """Index of one conversation, extended by what is new and rebuilt when the past changes."""

    name = "ngram"
    wants_hidden = False

    def __init__(self, earlier: Earlier | None = None) -> None:
        self._earlier = earlier
        self._seen: list[int] = []  # tokens that were read
        self._growing: Sequence[int] | None = None  # the reply's own sequence, once compared
        self._start = 0  # of those, where the index begins
        self._index = Automaton()

    def begin(self, tokens: Sequence[int]) -> None:
        """Nothing is read yet; but the past may be another one."""
        self._growing = None

    def offers(self, tokens: Sequence[int], least: int = SHORTEST) -> Sequence[Offer]:
        """A copy, where a run of at least `least` last tokens was seen before."""
        run, _, stored = self._find(tokens)
        if run < least:
            return ()
        name, hope = next((n, hope) for from_, n, hope in reversed(_RUNS) if run >= from_)
        kind = f"{self.name}, stored {name}" if stored else f"{self.name}, {name}"
        return (Offer(self.name, kind, hope=hope),)

    def catch_up(self, tokens: Sequence[int]) -> bool:
        """Reading is too cheap to be done in pieces."""
        return True

    def propose(self, context: Context, k: int) -> Draft:
        """What followed the most recent earlier place of the longest known run of last tokens."""
        run, place, stored = self._find(context.tokens)
        if run < SHORTEST:
            return Draft()
        if stored and self._earlier is not None:
            copy = self._earlier.after(place, k)
        else:
            copy = _copied(context.tokens, place, k)
        return Draft(copy, (None,) * len(copy))

    def settle(self, tokens: Sequence[int], accepted: int) -> None:
        """The index grows at the next `propose`; drafted tokens never enter it."""

    def _find(self, tokens: Sequence[int]) -> tuple[int, int, bool]:
        """Tokens that repeat, the place of their follower, and whether it is an earlier text's."""
        self._extend(tokens)
        run, place = self._index.run, self._start + self._index.place
        if self._earlier is not None and run < _PASSAGE:
            other, there = self._earlier.find(tokens, max(SHORTEST, run + 1))
            if other:
                return other, there, True
        return run, place, False

    def _extend(self, tokens: Sequence[int]) -> None:
        """Read what is new; all of it anew where the past is another one.

        Within a reply the same sequence grows at its end: there the last tokens tell.
        """
        known = len(self._seen)
        start = max(0, known - _TAIL) if tokens is self._growing else 0
        self._growing = tokens
        if known > len(tokens) or self._seen[start:] != list(tokens[start:known]):
            self._seen, known = [], 0
            self._restart(0)
        new = tokens[known:]
        self._seen.extend(new)
        if len(self._seen) - self._start > MOST:
            self._restart(len(self._seen) - MOST // 2)
            new = self._seen[self._start :]
        for token in new:
            self._index.extend(token)

    def _restart(self, start: int) -> None:
        self._start, self._index = start, Automaton()


def _copied(tokens: Sequence[int], place: int, k: int) -> tuple[int, ...]:
    """k tokens from `place` on; past the end it reads its own copy, so a loop goes round."""
    period = len(tokens) - place
    copy = list(tokens[place : place + k])
    while len(copy) < k:
        copy.append(copy[-period])
    return tuple(copy)
