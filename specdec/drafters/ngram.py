"""Drafts by looking the last few tokens up in prompt and reply. Knows token ids only; no model.

Prompt lookup (Saxena 2023) with an index: of the longest run of 4 to 2 tokens seen before, the
most recent place, and what followed there. Deterministic, so its law is one-hot: `laws` are None.
"""

from __future__ import annotations

from collections.abc import Sequence

from specdec.drafters.base import Context, Draft, Offer

LONGEST, SHORTEST = 4, 2

_FAR = 12
"""A run at least this long is a copy of a passage, not of a phrase: it is learned apart."""

_HOPE = {"short run": 0.4, "run": 0.6, "long run": 0.85}


class NgramDrafter:
    """Index of one conversation, extended by what is new and rebuilt when the past changes."""

    name = "ngram"
    wants_hidden = False

    def __init__(self) -> None:
        self._seen: list[int] = []  # tokens the index covers
        self._after: dict[tuple[int, ...], int] = {}  # run -> where its most recent follower is

    def begin(self, tokens: Sequence[int]) -> None:
        """Nothing is read yet; `propose` extends the index."""

    def offers(self, tokens: Sequence[int], least: int = SHORTEST) -> Sequence[Offer]:
        """A copy, where a run of at least `least` last tokens was seen before."""
        self._extend(tokens)
        place, run = self._find(tokens)
        if run < least:
            return ()
        if run == LONGEST:
            run = _run(tokens, place)
        length = "short run" if run < LONGEST else "run" if run < _FAR else "long run"
        return (Offer(self.name, f"{self.name}, {length}", hope=_HOPE[length]),)

    def catch_up(self, tokens: Sequence[int]) -> bool:
        """Reading is too cheap to be done in pieces."""
        return True

    def propose(self, context: Context, k: int) -> Draft:
        """What followed the most recent earlier place of the longest known run of last tokens."""
        self._extend(context.tokens)
        place, run = self._find(context.tokens)
        return _copied(context.tokens, place, k) if run else Draft()

    def settle(self, tokens: Sequence[int], accepted: int) -> None:
        """The index grows at the next `propose`; drafted tokens never enter it."""

    def _find(self, tokens: Sequence[int]) -> tuple[int, int]:
        """Where the follower of the longest known run of last tokens is, and how long; or 0, 0."""
        for n in range(LONGEST, SHORTEST - 1, -1):
            place = self._after.get(tuple(tokens[-n:])) if n <= len(tokens) else None
            if place is not None:
                return place, n
        return 0, 0

    def _extend(self, tokens: Sequence[int]) -> None:
        """Index every run that has a follower: all but the one that ends the sequence."""
        known = len(self._seen)
        if known > len(tokens) or self._seen != list(tokens[:known]):
            self._seen, self._after, known = [], {}, 0
        for place in range(known, len(tokens)):
            for n in range(SHORTEST, min(LONGEST, place) + 1):
                self._after[tuple(tokens[place - n : place])] = place
        self._seen.extend(tokens[known:])


def _run(tokens: Sequence[int], place: int) -> int:
    """How many tokens before `place` equal the last ones: at most `_FAR`."""
    end = len(tokens)
    most = min(_FAR, place)
    return next((n for n in range(most) if tokens[place - 1 - n] != tokens[end - 1 - n]), most)


def _copied(tokens: Sequence[int], place: int, k: int) -> Draft:
    """k tokens from `place` on; past the end it reads its own copy, so a loop goes round."""
    period = len(tokens) - place
    copy = list(tokens[place : place + k])
    while len(copy) < k:
        copy.append(copy[-period])
    return Draft(tuple(copy), (None,) * len(copy))
