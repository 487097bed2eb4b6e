"""Counter-based noise: (seed, prompt, index, stream, token id) -> an exponential, equal on every device.

Knows integers only. The draw itself is `sampling.draw`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

Stream = Literal["target", "draft", "accept", "residual"]


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise of one reply; `index` below counts tokens of the reply from 0."""

    seed: int
    digest: int  # 64 bits of a hash of the prompt ids

    @classmethod
    def of(cls, seed: int, prompt: Sequence[int]) -> Noise:
        """Noise for a reply to `prompt` ids under `seed`."""
        raise NotImplementedError

    def exponential(self, index: int, stream: Stream, ids: Tensor) -> Tensor:
        """E ~ Exp(1) for each of `ids` (int64 [n]) at reply `index`: float32 [n], all > 0."""
        raise NotImplementedError

    def uniform(self, index: int, stream: Stream) -> float:
        """One u in (0, 1) for reply `index`."""
        raise NotImplementedError
