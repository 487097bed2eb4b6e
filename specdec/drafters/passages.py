"""Texts sorted by how their prefixes end, to find where some last tokens stood. Knows ids only.

A suffix array of the texts read backwards, as far as `REACH` tokens: an automaton over as many
tokens would take a hundred times their bytes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

REACH = 24
"""Longer runs count as this many tokens: what follows is hardly more certain after more."""

END = (1 << 21) - 1
"""Stands between texts and is no token: ids are below it, and three of them fit in 64 bits."""


class Passages:
    """An index of texts that do not change, the most recent last."""

    def __init__(self, texts: Sequence[Sequence[int]]) -> None:
        self._tokens = array("I", [END])
        for text in texts:
            self._tokens.extend((*text, END))
        self._size = len(self._tokens)
        back = np.pad(np.array(self._tokens, np.int64)[::-1], (0, REACH), constant_values=END)
        self._bytes = back.astype(">u4").tobytes()  # so that bytes sort as tokens do
        followed = np.roll(back, 1)[: self._size] != END
        order = _sorted(back, self._size)
        keep = followed[order] & (back[order] != END)
        self._order = order[keep].astype(np.int32)
        self._view = memoryview(self._order)

    def find(self, tokens: Sequence[int], least: int) -> tuple[int, int]:
        """(run, place) of the longest run of last tokens, at most REACH, and its latest place.

        Only places that something follows; (0, 0) where the run would be shorter than `least`.
        """
        if len(tokens) < least or not self._view:
            return 0, 0
        wanted = np.array(tokens[: -REACH - 1 : -1], dtype=">u4").tobytes()
        at = bisect_left(self._view, wanted, key=self._window)
        near = self._view[max(0, at - 1) : at + 1]
        run = max(_common(self._window(i), wanted) for i in near)
        if run < least:
            return 0, 0
        prefix = wanted[: 4 * run]
        low = bisect_left(self._view, prefix, key=self._window)
        high = bisect_left(self._view, prefix + b"\xff", lo=low, key=self._window)
        return run, self._size - int(self._order[low:high].min())

    def after(self, place: int, k: int) -> tuple[int, ...]:
        """At most k tokens from a place on, up to the end of its text."""
        copy = self._tokens[place : place + k]
        return tuple(copy[: copy.index(END)] if END in copy else copy)

    def _window(self, i: int) -> bytes:
        """The REACH tokens that end at a place, backwards."""
        return self._bytes[4 * i : 4 * (i + REACH)]


def _sorted(
    back: np.ndarray[tuple[int], np.dtype[np.int64]], size: int
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Places 0 .. size - 1 of `back` by the REACH tokens from there on: by 3, then 6, 12, 24.

    Doubling, as Manber and Myers 1990 sort suffixes.
    """
    key = back[:size] << 42 | back[1 : size + 1] << 21 | back[2 : size + 2]
    covered = 3
    while True:
        order = np.argsort(key)  # equal ones in any order: they get one rank
        ranked = key[order]
        rank = np.empty(size, dtype=np.int64)
        rank[order] = np.cumsum(np.concatenate(([0], ranked[1:] != ranked[:-1])))
        if covered >= REACH or rank[order[-1]] == size - 1:
            return order
        later = np.full(size, size, dtype=np.int64)  # past the end: after all else
        later[: max(0, size - covered)] = rank[covered:]
        key = rank * (size + 1) + later
        covered *= 2


def _common(one: bytes, other: bytes) -> int:
    """Tokens that two windows share from their beginning."""
    most = min(len(one), len(other)) // 4
    return next(
        (n for n in range(most) if one[4 * n : 4 * n + 4] != other[4 * n : 4 * n + 4]), most
    )
