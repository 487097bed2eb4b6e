"""Drafts by looking the last few tokens up in prompt and reply. Knows token ids only; no model.

Prompt lookup (Saxena 2023) with an index: of the longest run of 4 to 2 tokens seen before, the
most recent place, and what followed there. Deterministic, so its law is one-hot: `laws` are None.
"""

from __future__ import annotations

from collections.abc import Sequence

from specdec.drafters.base import Context, Draft

LONGEST, SHORTEST = 4, 2


class NgramDrafter:
    """Index of one conversation, extended by what is new and rebuilt when the past changes."""

    name = "ngram"
    wants_hidden = False

    def __init__(self) -> None:
        self._seen: list[int] = []  # tokens the index covers
        self._after: dict[tuple[int, ...], int] = {}  # run -> where its most recent follower is

    def begin(self, tokens: Sequence[int]) -> None:
        """Nothing is read yet; `propose` extends the index."""

    def catch_up(self, tokens: Sequence[int]) -> bool:
        """Reading is too cheap to be done in pieces."""
        return True

    def propose(self, context: Context, k: int) -> Draft:
        """What followed the most recent earlier place of the longest known run of last tokens."""
        tokens = context.tokens
        self._extend(tokens)
        for n in range(LONGEST, SHORTEST - 1, -1):
            place = self._after.get(tuple(tokens[-n:])) if n <= len(tokens) else None
            if place is not None:
                return _copied(tokens, place, k)
        return Draft()

    def settle(self, tokens: Sequence[int], accepted: int) -> None:
        """The index grows at the next `propose`; drafted tokens never enter it."""

    def _extend(self, tokens: Sequence[int]) -> None:
        """Index every run that has a follower: all but the one that ends the sequence."""
        known = len(self._seen)
        if known > len(tokens) or self._seen != list(tokens[:known]):
            self._seen, self._after, known = [], {}, 0
        for place in range(known, len(tokens)):
            for n in range(SHORTEST, min(LONGEST, place) + 1):
                self._after[tuple(tokens[place - n : place])] = place
        self._seen.extend(tokens[known:])


def _copied(tokens: Sequence[int], place: int, k: int) -> Draft:
    """k tokens from `place` on; past the end it reads its own copy, so a loop goes round."""
    period = len(tokens) - place
    copy = list(tokens[place : place + k])
    while len(copy) < k:
        copy.append(copy[-period])
    return Draft(tuple(copy), (None,) * len(copy))
