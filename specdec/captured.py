"""The lean runner with captured calls: one a number of rows and of slots, over fixed buffers.

Knows the decoder's buffers and positions; nothing of which device records, or of rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specdec import decoder
from specdec.attention import ALIGN, Step, View
from specdec.decoder import See, Weights
from specdec.families import Shape
from specdec.graphs import Graphs, Work
from specdec.heads.states import States
from specdec.runner import TILE, Layout, LeanScorer

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Slate:
    """Fixed buffers for all calls of one number of rows: they never run at once."""

    ids: Tensor  # int64 [m]
    start: Tensor  # int64 [1], the position of the first row
    out: Tensor  # [m, rows of the head]

    @classmethod
    def of(cls, weights: Weights, rows: int, device: torch.device) -> Slate:
        """Empty, for `rows` rows."""
        shape = weights.shape
        dtype = weights.dtype if shape.logit_cap is None else torch.float32
        return cls(
            torch.zeros(rows, dtype=torch.int64, device=device),
            torch.zeros(1, dtype=torch.int64, device=device),
            torch.zeros(rows, shape.rows, dtype=dtype, device=device),
        )


class CapturedScorer(LeanScorer):
    """A `Scorer` whose scoring calls are captured where they can be; prefill runs plainly."""

    def __init__(
        self,
        weights: Weights,
        layout: Layout,
        capacity: int,
        vocab: int,
        exact: bool,
        graphs: Graphs,
    ) -> None:
        super().__init__(weights, layout, capacity, vocab, exact)
        self.graphs = graphs
        self._slates: dict[int, Slate] = {}

    def watch(self, states: States) -> None:
        """Raises ValueError: what a captured call has inside cannot be seen (yet)."""
        raise ValueError("captured calls do not hand out the states of their layers")

    def score_early(self, ids: Sequence[int], layers: int) -> Tensor:
        """Raises ValueError: a captured call runs all layers."""
        raise ValueError("captured calls cannot be left after some of their layers")

    def prepare(self, progress: Progress) -> None:
        """Capture ahead what fits the bound, small caches first; the cache must be empty.

        Raises ValueError when it is not: capturing writes to it.
        """
        if self.length:
            raise ValueError(f"prepare: {self.length} tokens are cached")
        sizes, length = list[int](), 0
        while length < self.capacity:
            sizes.append(length)
            length = self.layout.span(length)[1]
        wanted = [(rows, size) for size in sizes for rows in self.layout.counts]
        wanted = wanted[: self.graphs.most]
        for done, (rows, size) in enumerate(wanted):
            progress(done, len(wanted))
            self._length = size
            try:
                self._logits(torch.zeros(rows, dtype=torch.int64, device=self._device))
            finally:
                self._length = 0
            if not self.graphs.open:
                break

    @torch.inference_mode()
    def _logits(self, ids: Tensor, see: See | None = None) -> Tensor:
        rows, (floor, slots) = len(ids), self._span()
        if rows not in self._slates:
            self._slates[rows] = Slate.of(self._weights, rows, self._device)
        slate = self._slates[rows]
        slate.ids.copy_(ids)
        slate.start.fill_(self._length)

        @torch.inference_mode()
        def work() -> None:
            """No number of the host's enters but sizes, so a recording holds at every position."""
            shape, like = self._weights.shape, self._buffers.kv
            step = live_step(shape, slate.start, rows, slots, floor, like)
            hidden = decoder.hidden_states(self._weights, slate.ids, self._buffers, step)
            slate.out.copy_(decoder.logits(self._weights, hidden))

        def same(replay: Work) -> bool:
            work()
            plain = slate.out.clone()
            slate.out.zero_()
            replay()
            return torch.equal(plain, slate.out)

        self.graphs.get((rows, slots), work, same)()
        return slate.out.clone()  # the next call overwrites it


def live_step(shape: Shape, start: Tensor, rows: int, slots: int, floor: int, like: Tensor) -> Step:
    """`attention.make_step` for a position that only the device knows: int64 [1], >= `floor`."""
    blocks, group = -(-rows // TILE), shape.heads // shape.kv_heads
    at = start + torch.arange(blocks * TILE, device=like.device)
    views = {
        window: _live_view(window, at, slots, blocks, group, floor, like)
        for window in {kind.window for kind in shape.kinds}
    }
    every = tuple(views[kind.window] for kind in shape.kinds)
    return Step(at[:rows], slots, TILE, blocks, every)


def _live_view(
    window: int | None,
    at: Tensor,
    slots: int,
    blocks: int,
    group: int,
    floor: int,
    like: Tensor,
) -> View:
    first = 0 if window is None else max(0, floor + 1 - window) // ALIGN * ALIGN
    slot, row = torch.arange(first, slots, device=like.device), at[:, None]
    hidden = slot > row
    if window is not None:  # padding past the last slot keeps the window of the last row
        hidden |= slot <= row.clamp(max=slots - 1) - window
    mask = torch.zeros(hidden.shape, dtype=like.dtype, device=like.device)
    mask = mask.masked_fill_(hidden, -math.inf).view(blocks, 1, TILE, -1)
    return View(first, mask.repeat(1, 1, group, 1))
