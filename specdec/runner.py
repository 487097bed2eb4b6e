"""The lean runners: one sequence's KV buffer and how rows are laid out in a scoring call.

Static: every call scores the same number of rows, unused ones padded. Fast: as many as asked, or
the next number that the self-test found to be even.
Knows token ids; nothing of text, rounds or acceptance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from specdec import decoder, threads
from specdec.ahead import Ahead
from specdec.attention import Step, make_step
from specdec.decoder import See, Weights
from specdec.heads.states import States

STEP = 256
"""Cache slots are read in multiples of this, so that a row's geometry follows from its position."""

TILE = 4
"""Query rows the attention of a fixed layout takes at a time: few, so that one row costs little."""

CPU_CHUNK, GPU_CHUNK = 64, 256


@dataclass(frozen=True, slots=True)
class Layout:
    """How a scoring call is laid out.

    `counts`: the numbers of rows that matrices may see, ascending to `width`; calls are padded to
    the next. `fixed`: the attention takes tiles of one size, and the slots it reads follow from
    the position. The plain fast runner takes all counts and is not fixed. `doubling`: the slots
    read grow twofold instead of by `STEP`, for runners that prepare each size.
    """

    width: int
    counts: tuple[int, ...]
    fixed: bool
    doubling: bool = False

    @classmethod
    def plain(cls, width: int) -> Layout:
        """As many rows and slots as there are."""
        return cls(width, tuple(range(1, width + 1)), False)

    def padded(self, rows: int) -> int:
        """Rows that a call with `rows` scores."""
        return next(count for count in self.counts if count >= rows)

    def span(self, length: int) -> tuple[int, int]:
        """Between which borders a call after `length` tokens stands; it reads up to the second."""
        if not self.doubling or length < STEP:
            floor = length // STEP * STEP
            return floor, floor + STEP
        floor = STEP << (length // STEP).bit_length() - 1
        return floor, 2 * floor


def prefill_chunk(device: torch.device) -> int:
    """Tokens a prefill call reads."""
    return CPU_CHUNK if device.type == "cpu" else GPU_CHUNK


class LeanScorer:
    """A `Scorer` over the lean decoder. The KV buffer is allocated once, at capacity."""

    can_rewind = True
    rewind_reason = ""

    def __init__(
        self, weights: Weights, layout: Layout, capacity: int, vocab: int, exact: bool
    ) -> None:
        device = weights.embed.device
        self.vocab = vocab
        self.capacity = capacity
        self.chunk = prefill_chunk(device)
        self.exact = exact
        self.layout = layout
        self._weights = weights
        self._device = device
        # padded rows may be written past the capacity, and slots are read in whole steps
        self._slots = -(-capacity // STEP) * STEP
        slots = self._slots + layout.width
        self._buffers = decoder.make_buffers(weights.shape, slots, weights.dtype, device)
        self._length = 0
        self._clean = 0  # leading tokens that whole prefill chunks wrote
        self._states: States | None = None
        self._ahead: Ahead | None = None

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        return self._device

    @property
    def length(self) -> int:
        return self._length

    @property
    def reusable(self) -> int:
        return self._clean if self.exact else self._length

    def watch(self, states: States) -> None:
        """Put the states of its layers there from now on, while it is open.

        It costs nothing when nobody asks; the passes compute the same in either case.
        """
        states.bind(self)
        self._states = states

    def room(self) -> int:
        most = min(self.layout.width, self.capacity - self._length)
        return min(most, self._span()[1] - self._length) if self.layout.fixed else most

    def prefill(self, ids: Sequence[int]) -> None:
        start, rows = self._length, len(ids)
        border = (start // self.chunk + 1) * self.chunk
        if rows == 0 or start + rows > min(border, self.capacity):
            raise ValueError(f"prefill of {rows} tokens at {start}: the chunk ends at {border}")
        self._ahead = None
        step = self._step(start, rows, start + rows, rows, start)
        tap = self._states.tap() if self._states is not None else None
        see = None if tap is None else tap.see
        whole = tap is not None and tap.last == len(self._weights.layers)
        read = decoder.hidden_states if whole else decoder.fill
        with threads.all_of_them():
            read(self._weights, self._tensor(ids), self._buffers, step, see)
        self._length += rows
        if self._states is not None and tap is not None:
            self._states.put(start, tap.rows(rows))
        if self._clean == start and self._length == border:
            self._clean = border

    def score(self, ids: Sequence[int]) -> Tensor:
        ahead, tapped = self._ahead, self._states is not None and self._states.open
        if ahead is None or tapped or not ahead.begins(ids):
            return self.score_tensor(self._tensor(ids))
        return self._go_on(ahead, ids)

    def score_early(self, ids: Sequence[int], layers: int) -> Tensor:
        """Read `ids` after all that was read before through the first `layers` layers alone.

        Logits after the last of them, of final norm and output matrix on what leaves there: float32
        [V] (Elhoushi et al. 2024, LayerSkip). `length` stays. A `score` that begins with all ids
        read so goes on where they are, by the same bits where the layout gives a row the same bits
        everywhere; any other call forgets them. Raises ValueError beyond `room()`.
        """
        ahead = self._ahead
        if ahead is None or ahead.layers != layers:
            ahead = Ahead(layers)
        known, rows = len(ahead.ids), len(ids)
        if not 1 <= rows <= self.room() - known:
            raise ValueError(f"{rows} rows after {known} read ahead: room for {self.room()}")
        out = self._first(self._length + known, ids, layers)
        ahead.add(ids, out)
        self._ahead = ahead
        return fit_vocab(decoder.logits(self._weights, out[-1:]), self.vocab)[0]

    def score_tensor(self, ids: Tensor) -> Tensor:
        """As `score`, for ids (int64 [m]) that are on the device: the host need not know them."""
        start, rows, layout = self._length, len(ids), self.layout
        if not 1 <= rows <= self.room():
            raise ValueError(f"score of {rows} rows at {start}: there is room for {self.room()}")
        self._ahead = None
        rest = layout.padded(rows) - rows
        tap = self._states.tap() if self._states is not None else None
        see = None if tap is None else tap.see
        logits = self._logits(F.pad(ids, (0, rest)) if rest else ids, see)
        self._length += rows
        if self._states is not None and tap is not None:
            self._states.put(start, tap.rows(rows))
        return fit_vocab(logits[:rows], self.vocab)

    def rewind(self, length: int) -> None:
        if not 0 <= length <= self._length:
            raise ValueError(f"rewind to {length}: {self._length} tokens are cached")
        self._length, self._ahead = length, None
        self._clean = min(self._clean, length // self.chunk * self.chunk)
        if self._states is not None:
            self._states.cut(length)

    def _logits(self, ids: Tensor, see: See | None = None) -> Tensor:
        """Score `ids` [m], padding included, from the cached length on: [m, rows of the head]."""
        step = self._step_at(self._length, len(ids))
        hidden = decoder.hidden_states(self._weights, ids, self._buffers, step, see)
        return decoder.logits(self._weights, hidden)

    def _first(self, start: int, ids: Sequence[int], layers: int) -> Tensor:
        """The first layers' K and V of `ids` from `start` on, and what leaves them: [m, hidden]."""
        rows = len(ids)
        padded = F.pad(self._tensor(ids), (0, self.layout.padded(rows) - rows))
        step = self._step_at(start, len(padded))
        x = decoder.embed(self._weights, padded)
        return decoder.layers(self._weights, x, self._buffers, step, range(layers))[:rows]

    def _go_on(self, ahead: Ahead, ids: Sequence[int]) -> Tensor:
        """As `score`, from where the first ids have come already."""
        start, rows, known = self._length, len(ids), len(ahead.ids)
        if rows > self.room():
            raise ValueError(f"score of {rows} rows at {start}: there is room for {self.room()}")
        if known < rows:
            ahead.add(ids[known:], self._first(start + known, ids[known:], ahead.layers))
        self._ahead = None
        count = self.layout.padded(rows)
        x = F.pad(ahead.rows(), (0, 0, 0, count - rows))
        rest = range(ahead.layers, len(self._weights.layers))
        step = self._step_at(start, count)
        x = decoder.layers(self._weights, x, self._buffers, step, rest)
        self._length += rows
        return fit_vocab(decoder.logits(self._weights, x)[:rows], self.vocab)

    def _step_at(self, start: int, rows: int) -> Step:
        """Of a call whose rows, padding included, stand from `start` on."""
        if self.layout.fixed:
            floor, border = self._span()
            return self._step(start, rows, border, TILE, floor)
        return self._step(start, rows, start + rows, rows, start)

    def _span(self) -> tuple[int, int]:
        floor, border = self.layout.span(self._length)
        return floor, min(border, self._slots)

    def _step(self, start: int, rows: int, slots: int, tile: int, floor: int) -> Step:
        shape, like = self._weights.shape, self._buffers.kv
        return make_step(shape, start, rows, slots, tile, like, floor)

    def _tensor(self, ids: Sequence[int]) -> Tensor:
        return torch.tensor(ids, dtype=torch.int64).to(self._device, non_blocking=True)


def fit_vocab(logits: Tensor, vocab: int) -> Tensor:
    """[m, rows] -> float32 [m, vocab]: rows beyond the tokenizer have no column (A21).

    A token without a row in the matrix, which no draw may return, is -inf.
    """
    logits = logits[:, :vocab].float()
    missing = vocab - logits.shape[1]
    return F.pad(logits, (0, missing), value=-torch.inf) if missing else logits
