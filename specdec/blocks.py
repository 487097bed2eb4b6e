"""GGUF's 4-bit blocks -> nibbles, scales and minima in groups of 32; nothing is quantised again.

Q4_0, Q4_1 and Q4_K hold q in 0..15 with w = q * scale + minimum. As w = (q - 8) * s + z that is
what torch's int4 kernel takes, up to bf16 rounding of s and z. Knows bytes; nothing of files.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specdec.linear import GROUP

Q4_0, Q4_1, Q4_K = 2, 3, 12
"""ggml's type ids of the kinds that can stay packed (ggml-org/ggml ggml.h)."""

NAMES = {Q4_0: "Q4_0", Q4_1: "Q4_1", Q4_K: "Q4_K"}

_BYTES = {Q4_0: 18, Q4_1: 20, Q4_K: 144}  # of one block
_SUB = 8  # groups of 32 in a Q4_K block


def unpack(raw: Tensor, kind: int) -> tuple[Tensor, Tensor]:
    """Rows of blocks, uint8 [N, bytes] -> q uint8 [N, K] and float32 [N, K/32, 2] of (s, z).

    Layouts: ggml-org/ggml ggml-common.h, block_q4_0, block_q4_1, block_q4_K.
    """
    blocks = raw.view(len(raw), -1, _BYTES[kind])
    if kind == Q4_K:
        return _unpack_k(blocks)
    scale = _half(blocks[..., 0:2])
    low = _half(blocks[..., 2:4]) + 8 * scale if kind == Q4_1 else torch.zeros_like(scale)
    nibbles = blocks[..., 4 if kind == Q4_1 else 2 :]
    q = torch.cat((nibbles & 15, nibbles >> 4), 2)
    return q.flatten(1), torch.cat((scale, low), 2)


def _unpack_k(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """[N, n, 144]: d, dmin, 12 bytes of 6-bit scales and minima, 128 bytes of nibbles."""
    scale, low = (_half(blocks[..., 0:2]), _half(blocks[..., 2:4]))
    first, second, third = blocks[..., 4:8], blocks[..., 8:12], blocks[..., 12:16]
    scales = torch.cat((first & 63, (third & 15) | (first >> 6 << 4)), 2)
    minima = torch.cat((second & 63, (third >> 4) | (second >> 6 << 4)), 2)
    s = scale * scales.float()
    z = 8 * s - low * minima.float()
    nibbles = blocks[..., 16:].reshape(*blocks.shape[:2], _SUB // 2, GROUP)
    q = torch.cat((nibbles & 15, nibbles >> 4), 3)  # the low halves come first, 32 by 32
    return q.flatten(1), torch.stack((s.flatten(1), z.flatten(1)), 2)


def _half(pairs: Tensor) -> Tensor:
    """uint8 [N, n, 2] -> float32 [N, n, 1]."""
    return pairs.contiguous().view(torch.float16).float()


def tolerance(scale_zero: Tensor) -> Tensor:
    """Most that rounding s and z to bf16 moves a weight of each group: [N, K/32] from (s, z).

    bf16 keeps 8 binary digits: each moves by at most 2^-8 of itself, and |q - 8| is at most 8.
    """
    return (8 * scale_zero[..., 0].abs() + scale_zero[..., 1].abs()) * 2.0**-8
