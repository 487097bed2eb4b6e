"""Which of a draft's ids mean one of the target's, and a draft's logits by the target's ids.

Knows pairs of ids and logits; nothing of bytes, models or laws.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class SharedTokens:
    """Pairs (draft's id, target's id) of equal meaning, one to one, for a target of `vocab` ids.

    `rest` are the draft's ids for text that no single id of the target stands for: as if they were
    the target's ids from `vocab` on.
    """

    def __init__(
        self,
        pairs: Sequence[tuple[int, int]],
        vocab: int,
        rest: Sequence[int] = (),
        device: torch.device | None = None,
    ) -> None:
        every = [*pairs, *((mine, vocab + i) for i, mine in enumerate(rest))]
        self._mine = torch.tensor([a for a, _ in every], dtype=torch.int64, device=device)
        self._theirs = torch.tensor([b for _, b in every], dtype=torch.int64, device=device)
        self._own = {b: a for a, b in every}
        self._shared = len(pairs)
        self._vocab = vocab
        self._rest = len(rest)

    def row(self, logits: Tensor) -> Tensor:
        """The draft's logits [V of the draft] by the target's ids: float32 [vocab], -inf else."""
        return self._placed(logits, self._shared, self._vocab)

    def whole_row(self, logits: Tensor) -> Tensor:
        """As `row`, and the rest behind: float32 [vocab + len(rest)]."""
        return self._placed(logits, len(self._mine), self._vocab + self._rest)

    def own(self, token: int) -> int:
        """The draft's id for one of a row."""
        return self._own[token]

    def _placed(self, logits: Tensor, count: int, size: int) -> Tensor:
        row = torch.full((size,), -torch.inf, device=logits.device)
        return row.index_copy_(0, self._theirs[:count], logits[self._mine[:count]].float())
