"""What a target's first layers made of tokens that are only drafted, kept until these are scored.

Knows ids and rows; nothing of weights, caches or laws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(slots=True)
class Ahead:
    """Row i is what leaves the first `layers` layers for ids[i], i places after the cached tokens.

    The K and V of these layers lie in the cache already, beyond its length.
    """

    layers: int
    ids: list[int] = field(default_factory=list)
    pieces: list[Tensor] = field(default_factory=list)  # [m, hidden], in order

    def add(self, ids: Sequence[int], rows: Tensor) -> None:
        """Rows [m, hidden] of the next m ids."""
        self.ids += ids
        self.pieces.append(rows)

    def begins(self, ids: Sequence[int]) -> bool:
        """Whether `ids` begin with all that was read ahead."""
        return self.ids == list(ids[: len(self.ids)])

    def rows(self) -> Tensor:
        """All of them: [m, hidden]."""
        return torch.cat(self.pieces)
