"""Logits + settings -> the law a token is drawn from. Used by target AND drafts, in one order.

penalties -> temperature -> top-k -> top-p -> min-p (DESIGN 4). Temperature 0 is a one-hot law.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from specdec.noise import Noise, Stream
from specdec.request import Sampling


@dataclass(frozen=True, slots=True)
class Law:
    """A law over [0, size): ids that survive the filters, ascending, and their scores (logit/T)."""

    ids: Tensor  # int64 [n], ascending, n >= 1
    scores: Tensor  # float32 [n]
    size: int  # V


def law(logits: Tensor, sampling: Sampling, tokens: Sequence[int], reply_start: int) -> Law:
    """The law of the token that follows `tokens`, from its logits (float32 [V])."""
    raise NotImplementedError


def draw(law: Law, noise: Noise, index: int, stream: Stream) -> int:
    """argmax of score - log E over the ids of the law; the lowest id wins a tie."""
    raise NotImplementedError
