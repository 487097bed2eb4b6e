"""The target's tokens as the ids of another tokenizer, kept up as they grow or are edited.

Knows ids and bytes; nothing of models or laws. The ids follow from the text and the markers alone,
not from how the target cut the text into tokens, nor from what was read before.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

_LEAST, _MOST = 256, 1024
"""Bytes of a piece that is encoded by itself: it ends at the first anchor after the least."""

_ANCHOR = re.compile(rb"(?<=[A-Za-z])[ \n.,;:()]")
"""Byte-level tokenizers begin a new word there, so a cut before it changes no id."""


@dataclass(frozen=True, slots=True)
class Tongue:
    """Two tokenizers: how a draft reads what a target wrote, and how its own text is written there.

    `spell(id)` are the bytes of a target's word, None for a marker; `markers` are those the draft
    has as well, by the target's id: what they are for it. `encode` is the draft's, without special
    tokens; `spell_out` its ids for bytes that begin a character, None where it has none; `own(id)`
    the bytes of its word. `respell` is the target's encoding. `begin` stands before every text.
    """

    spell: Callable[[int], bytes | None]
    markers: Mapping[int, int]
    encode: Callable[[str], Sequence[int]]
    spell_out: Callable[[bytes], Sequence[int] | None]
    own: Callable[[int], bytes]
    respell: Callable[[str], Sequence[int]]
    begin: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Closed:
    """All that stands before is encoded for good, once the first `seen` tokens are what they are.

    `ids` ids are of it; what follows begins `skip` bytes into the token at `place`.
    """

    seen: int
    ids: int
    place: int
    skip: int


class Reading:
    """`read` a growing sequence; only its last piece is encoded again."""

    def __init__(self, tongue: Tongue) -> None:
        self._tongue = tongue
        self._tokens: list[int] = []
        self._ids = list(tongue.begin)  # of the closed pieces
        self._closed = [_Closed(0, len(tongue.begin), 0, 0)]
        self._last: list[int] | None = list(tongue.begin)

    def read(self, tokens: Sequence[int]) -> list[int] | None:
        """The draft's ids of all `tokens`; None while it has none for an unfinished character."""
        same = _common(self._tokens, tokens)
        if same == len(tokens) == len(self._tokens):
            return None if self._last is None else list(self._last)
        while self._closed[-1].seen > same:
            self._closed.pop()
        last = self._closed[-1]
        del self._ids[last.ids :]
        self._tokens = list(tokens)
        piece, skip = b"", last.skip
        for place in range(last.place, len(tokens)):
            data = self._tongue.spell(tokens[place])
            if data is None:
                self._close(piece, tokens[place], place + 1, 0)
                piece = b""
                continue
            piece, skip = piece + data[skip:], 0
            while cut := _cut(piece):
                rest = piece[cut:]
                self._close(piece[:cut], None, place, len(data) - len(rest))
                piece = rest
        self._last = self._with(piece)
        return None if self._last is None else list(self._last)

    def _close(self, piece: bytes, marker: int | None, place: int, skip: int) -> None:
        """Encode a piece for good, and the marker after it where the draft has the same."""
        if piece:
            self._ids += self._tongue.encode(piece.decode(errors="replace"))
        if marker is not None and marker in self._tongue.markers:
            mine = self._tongue.markers[marker]
            if place > 1 or self._ids[-1:] != [mine]:  # the draft's own beginning, said by both
                self._ids.append(mine)
        seen = place if marker is not None else place + 1
        self._closed.append(_Closed(seen, len(self._ids), place, skip))

    def _with(self, piece: bytes) -> list[int] | None:
        """All ids, the open piece included: whole characters, then what begins one."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(piece)
        begun = decoder.getstate()[0]
        rest = self._tongue.spell_out(begun) if begun else ()
        if rest is None:
            return None
        return [*self._ids, *(self._tongue.encode(text) if text else ()), *rest]


def _cut(piece: bytes) -> int:
    """Where a piece ends; 0 while it goes on. Bytes to come never change it."""
    if len(piece) <= _LEAST:
        return 0
    anchor = _ANCHOR.search(piece, _LEAST, _MOST)
    if anchor is not None:
        return anchor.start()
    return next((i for i in range(_MOST, len(piece)) if piece[i] & 0xC0 != 0x80), 0)


def _common(mine: Sequence[int], true: Sequence[int]) -> int:
    """How many first tokens are the same."""
    same = min(len(mine), len(true))
    if list(mine[:same]) == list(true[:same]):
        return same
    return next(i for i, (a, b) in enumerate(zip(mine, true, strict=False)) if a != b)
