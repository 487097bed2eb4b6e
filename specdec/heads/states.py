"""What the target's tapped layers said of each token, kept by position until the head has read it.

Knows positions and rows; nothing of layers' meaning, heads or tokens' ids.
"""

from __future__ import annotations

from collections import deque

import torch
from torch import Tensor

MOST = 4096
"""Positions kept at most: a prompt's states are three times the target's width a token."""


class Tap:
    """Collects what enters the chosen layers during one pass; give `see` to the decoder."""

    def __init__(self, layers: tuple[int, ...]) -> None:
        self._layers = layers
        self._seen: list[Tensor] = []

    @property
    def last(self) -> int:
        """The highest of its layers."""
        return self._layers[-1]

    def see(self, index: int, x: Tensor) -> None:
        """`x` [m, hidden] enters layer `index`; after the last one, `index` is their number."""
        if index in self._layers:
            self._seen.append(x)

    def rows(self, count: int) -> Tensor:
        """The first `count` rows: [count, layers * hidden], lowest layer first."""
        return torch.cat([x[:count] for x in self._seen], 1)


class States:
    """Rows of positions `first` to `end`, without a gap; the oldest go beyond `most` of them.

    A scorer puts rows here while `open`, and cuts at every rewind, open or not: so what is held
    always belongs to the tokens it has cached.
    """

    def __init__(self, layers: tuple[int, ...], most: int = MOST) -> None:
        self.layers = layers
        self.open = False
        self.end = 0
        self._most = most
        self._owner: object = None
        self._pieces: deque[tuple[int, Tensor]] = deque()  # position of the first row, rows

    @property
    def first(self) -> int:
        """The earliest position held; `end` when there is none."""
        return self._pieces[0][0] if self._pieces else self.end

    def bind(self, owner: object) -> None:
        """`owner` puts rows from now on; those of another sequence's owner are let go."""
        if owner is not self._owner:
            self._owner = owner
            self.cut(0)

    def tap(self) -> Tap | None:
        """To collect one pass with, while somebody wants its states."""
        return Tap(self.layers) if self.open else None

    def put(self, start: int, rows: Tensor) -> None:
        """Rows [m, layers * hidden] of positions `start` to `start` + m; what followed is gone."""
        self.cut(start)
        if start != self.end:  # somebody else read the tokens between
            self._pieces.clear()
        self._pieces.append((start, rows))
        self.end = start + len(rows)
        self.drop(self.end - self._most)

    def cut(self, length: int) -> None:
        """Forget positions from `length` on."""
        while self._pieces and self._pieces[-1][0] >= length:
            self._pieces.pop()
        if self._pieces:
            start, rows = self._pieces[-1]
            self._pieces[-1] = (start, rows[: length - start])
        self.end = min(self.end, length)

    def take(self, start: int, stop: int) -> Tensor:
        """Rows of `start` to `stop`; they and all before them are let go.

        Raises ValueError where not all of them are held.
        """
        if not self.first <= start < stop <= self.end:
            raise ValueError(f"states {start} to {stop}: {self.first} to {self.end} are held")
        parts = [
            rows[max(0, start - at) : stop - at]
            for at, rows in self._pieces
            if at < stop and at + len(rows) > start
        ]
        self.drop(stop)
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def drop(self, before: int) -> None:
        """Forget positions below `before`."""
        while self._pieces and self._pieces[0][0] < before:
            start, rows = self._pieces.popleft()
            if start + len(rows) > before:
                self._pieces.appendleft((before, rows[before - start :]))
