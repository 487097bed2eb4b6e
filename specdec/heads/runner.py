"""One sequence in a head: its KV cache, and the fused states of the tokens it has been told of.

Knows rows by number; nothing of token positions, laws or rounds.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specdec import decoder
from specdec.attention import Step, make_step
from specdec.heads import module
from specdec.heads.module import Head
from specdec.runner import prefill_chunk


class HeadRunner:
    """Row i holds the token after state i. `known` states and `length` rows of the truth are held.

    Fused states are kept, not the target's: an edit then needs no state anew that was read before.
    """

    def __init__(self, head: Head, capacity: int, vocab: int) -> None:
        self.capacity = capacity
        self.vocab = vocab
        self.length = self.known = 0
        self._head = head
        self._device = head.norm.device
        self.chunk = prefill_chunk(self._device)
        block = head.shape.block
        self._buffers = decoder.make_buffers(block, capacity, head.dtype, self._device)
        size = (capacity, block.hidden)
        self._fused = torch.zeros(size, dtype=head.dtype, device=self._device)
        self._drafted = 0  # rows after `length` that are of the head's own draft
        self._last = self._fused[0]
        ids = torch.arange(head.shape.drafts) if head.ids is None else head.ids.cpu()
        self._mine = torch.nonzero(ids < vocab)[:, 0].to(self._device)
        self._ids = ids[ids < vocab].to(self._device)

    def absorb(self, states: Tensor) -> None:
        """The target's states [m, taps * target_hidden] of the next m tokens, onto `known`."""
        end = self.known + len(states)
        self._fused[self.known : end] = module.features(self._head, states)
        self.known = end

    def fill(self, ids: Sequence[int]) -> None:
        """Append rows of the truth and compute no logits. Their states must be known."""
        fused, step = self._rows(self.length, len(ids))
        module.fill(self._head, self._tensor(ids), fused, self._buffers, step)
        self.length += len(ids)

    def read(self, ids: Sequence[int]) -> Tensor:
        """Append rows of the truth; logits after the last: float32 [vocab], -inf where no id is."""
        fused, step = self._rows(self.length, len(ids))
        out = module.forward(self._head, self._tensor(ids), fused, self._buffers, step)
        self.length += len(ids)
        self._drafted = 0
        return self._logits(out[-1:])

    def follow(self, token: int) -> Tensor:
        """A drafted token after the last row, with the head's own guess for its state: as `read`.

        Raises ValueError where the cache is full.
        """
        start = self.length + self._drafted
        if start >= self.capacity:
            raise ValueError(f"the head's cache holds {self.capacity} rows")
        step = self._step(start, 1)
        out = module.forward(self._head, self._tensor([token]), self._last, self._buffers, step)
        self._drafted += 1
        return self._logits(out)

    def rewind(self, length: int, known: int) -> None:
        """Forget all but `length` rows and `known` states. Raises ValueError above what is held."""
        if not 0 <= length <= self.length or not length <= known <= self.known:
            raise ValueError(f"rewind to {length}, {known}: {self.length}, {self.known} are held")
        self.length, self.known, self._drafted = length, known, 0

    def _logits(self, out: Tensor) -> Tensor:
        self._last = out
        scores = module.scores(self._head, out)[0]
        row = torch.full((self.vocab,), -torch.inf, device=self._device)
        return row.index_copy_(0, self._ids, scores[self._mine])

    def _rows(self, start: int, count: int) -> tuple[Tensor, Step]:
        if start + count > self.known:
            raise ValueError(f"row {start + count - 1}: {self.known} states are known")
        return self._fused[start : start + count], self._step(start, count)

    def _step(self, start: int, rows: int) -> Step:
        like = self._buffers.kv
        return make_step(self._head.shape.block, start, rows, start + rows, rows, like, start)

    def _tensor(self, ids: Sequence[int]) -> Tensor:
        return torch.tensor(ids, dtype=torch.int64).to(self._device, non_blocking=True)
