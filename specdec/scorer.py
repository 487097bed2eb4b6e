"""What a decode loop needs of a model: score tokens, rewind. Targets and model drafts both are one.

Knows token ids and logits; nothing of text, prompts or acceptance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor


class Scorer(Protocol):
    """A model with its KV cache for one sequence.

    Invariant 1 (DESIGN 7): `length` tokens are cached; between rounds length == len(tokens) - 1.
    """

    vocab: int
    """V: logits have this many columns; rows padded beyond the tokenizer are -inf."""
    capacity: int
    """Most tokens the cache may hold."""
    chunk: int
    """Prefill reads this many tokens a call, at absolute multiples of it."""
    exact: bool
    """True where a row's logits do not depend on how many rows are scored with it (DESIGN 5)."""
    can_rewind: bool
    """False where the cache cannot be shortened; the engine then refuses speculation at load."""

    @property
    def length(self) -> int:
        """Tokens cached."""

    @property
    def reusable(self) -> int:
        """Leading cached tokens a new prompt may keep and still get the bits a fresh prefill gives.

        A multiple of `chunk` up to what prefill wrote when `exact`; otherwise `length`.
        """

    def room(self) -> int:
        """Most rows the next `score` may take from `length` on: width, borders and capacity."""

    def prefill(self, ids: Sequence[int]) -> None:
        """Append `ids` to the cache without logits; at most up to the next multiple of `chunk`.

        Raises ValueError when it would cross that border: the caller loops, and looks for a
        cancel between calls.
        """

    def score(self, ids: Sequence[int]) -> Tensor:
        """Append m `ids` (1 <= m <= room()) and return their logits, float32 [m, V]."""

    def score_tensor(self, ids: Tensor) -> Tensor:
        """As `score`, for ids (int64 [m]) on its device, which the host need not know."""

    def rewind(self, length: int) -> None:
        """Forget all but the first `length` tokens. Raises ValueError above `length`."""


class Resident(Scorer, Protocol):
    """A `Scorer` whose `score_tensor` does not make the host wait for its device."""

    @property
    def device(self) -> torch.device:
        """Where it runs."""
