"""What the target thinks of chats while it writes them, so that nothing is read a second time.

Knows rows side by side, each at its own place; nothing of text, files or training.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specdec.training.batch import States
from specdec.training.teacher import Lesson


class Notes:
    """Buffers for `rows` sequences of at most `slots` tokens."""

    def __init__(self, rows: int, slots: int, hidden: int, taps: int, device: torch.device) -> None:
        self._taps = torch.zeros(rows, slots, taps * hidden, dtype=torch.bfloat16, device=device)
        self._last = torch.zeros(rows, slots, hidden, dtype=torch.bfloat16, device=device)
        self._norm = torch.zeros(rows, slots, device=device)
        self._top = torch.zeros(rows, slots, dtype=torch.int32, device=device)
        self._rows = torch.arange(rows, device=device)

    def add(self, starts: Tensor, states: States, norm: Tensor, top: Tensor) -> None:
        """One token more of each of the first rows, at `starts` int64 [rows], with its law."""
        at = (self._rows[: len(starts)], starts)
        self._taps[at] = states.taps[:, 0].bfloat16()
        self._last[at] = states.last[:, 0].bfloat16()
        self._norm[at], self._top[at] = norm, top

    def begin(self, row: int, prefix: Lesson) -> None:
        """Let a sequence begin with these tokens, whoever wrote them."""
        n = len(prefix.norm)
        self._taps[row, :n], self._last[row, :n] = prefix.taps, prefix.last
        self._norm[row, :n], self._top[row, :n] = prefix.norm, prefix.top

    def lesson(self, row: int, count: int) -> Lesson:
        """The first `count` tokens of a row."""
        whole = (self._taps, self._last, self._norm, self._top)
        return Lesson(*(tensor[row, :count].cpu().clone() for tensor in whole))
