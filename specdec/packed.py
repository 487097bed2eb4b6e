"""Matrices and rows that stay as GGUF packed them, on a CPU: one copy of 4-bit weights, no other.

Knows blocks and torch's int4 kernel; nothing of layers or models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from specdec import blocks
from specdec.linear import GROUP, Int4, Linear, multiplies

BAND = 1024
"""Rows dequantised at a time, a multiple of every layout: no second copy of a matrix is held."""

PACK_NUMBERS = 400_000
"""Weights packed at a time, in whole lines of ROUND rows: unpacked they take ten times their room.
"""

INT4_BYTES = 0.5 + 4 / GROUP
"""Bytes a packed weight takes: 4 bits, and a scale and zero of bf16 a group."""

ROUND = 64
"""Rows are padded to a multiple of this, as the kernel wants."""

MANY = 192
"""From this many rows on, dequantised rows are faster, with bf16 in hardware and without it."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """Rows of one tensor as they lie in the file: uint8 [N, bytes], and ggml's kind."""

    raw: Tensor
    kind: int


@dataclass(frozen=True, slots=True)
class Packed:
    """`Int4` for few rows; many are multiplied by dequantised rows, a band at a time."""

    few: Int4
    many_from: int  # rows of x

    @classmethod
    def pack(cls, parts: Sequence[Blocks], bias: Tensor | None) -> Packed:
        """The parts one below the other, as the kernel wants them."""
        rows = sum(len(part.raw) for part in parts)
        first, _ = blocks.unpack(parts[0].raw[:1], parts[0].kind)
        padded, width = rows + -rows % ROUND, first.shape[1]
        packed = torch.empty(padded, width // 2, dtype=torch.uint8)
        scales = torch.empty(width // GROUP, padded, 2, dtype=torch.bfloat16)
        band = max(PACK_NUMBERS // width // ROUND * ROUND, ROUND)
        for start in range(0, padded, band):
            stop = min(start + band, padded)
            q, scale_zero = _rows(parts, start, stop)
            packed[start:stop] = torch.ops.aten._convert_weight_to_int4pack_for_cpu(q.int(), 1)
            scales[:, start:stop] = scale_zero.transpose(0, 1)
        return cls(Int4(packed, scales, bias, rows), many_from())

    @property
    def width(self) -> int:
        return self.few.width

    @property
    def nbytes(self) -> int:
        return self.few.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        return self.few(x) if len(x) < self.many_from else self._many(x)

    def _many(self, x: Tensor) -> Tensor:
        dtype = torch.bfloat16 if multiplies(torch.bfloat16) else torch.float32
        wide, rows = x.to(dtype), self.few.rows
        y = torch.empty(len(x), rows, dtype=x.dtype)
        for start in range(0, rows, BAND):
            stop = min(start + BAND, rows)
            y[:, start:stop] = (wide @ self.band(start).to(dtype))[:, : stop - start]
        return y if self.few.bias is None else (y + self.few.bias).to(x.dtype)

    def band(self, start: int) -> Tensor:
        """Up to BAND matrix rows from `start` (a multiple of BAND), dequantised and transposed.

        float32 [K, n], n padded to a multiple of 64: rounded once, later, as an unpacked matrix is.
        Raises TypeError without a known layout.
        """
        found = layout()
        if found is None:
            raise TypeError("this torch packs int4 in an order that is not known here")
        packed = self.few.packed[start : start + BAND]
        nibbles = packed.view(-1, self.width, found.rows // 2)
        w = torch.empty(self.width, len(nibbles), found.rows)
        w[..., found.low] = (nibbles & 15).transpose(0, 1).float()
        w[..., found.high] = (nibbles >> 4).transpose(0, 1).float()
        scale, zero = self.few.scales[:, start : start + BAND].float().unbind(2)
        groups = w.view(self.width // GROUP, GROUP, -1)
        return groups.sub_(8).mul_(scale[:, None]).add_(zero[:, None]).flatten(0, 1)


def _rows(parts: Sequence[Blocks], start: int, stop: int) -> tuple[Tensor, Tensor]:
    """Rows `start` to `stop` of the parts one below the other, unpacked; zeros beyond the last."""
    found, top = [], 0
    for part in parts:
        raw = part.raw[max(start - top, 0) : max(stop - top, 0)]
        if len(raw):
            found.append(blocks.unpack(raw, part.kind))
        top += len(part.raw)
    q, scale_zero = (torch.cat(pieces) for pieces in zip(*found, strict=True))
    rest = stop - start - len(q)
    return F.pad(q, (0, 0, 0, rest)), F.pad(scale_zero, (0, 0, 0, 0, 0, rest))


@dataclass(frozen=True, slots=True)
class Layout:
    """How the kernel orders nibbles: blocks of `rows` matrix rows, [K, rows / 2] bytes each.

    The low nibbles of a line of bytes are the block's rows `low`, the high ones its rows `high`.
    """

    rows: int
    low: slice
    high: slice


@cache
def layout() -> Layout | None:
    """Found by packing numbers that tell where they came from; it differs by instruction set."""
    size, width = ROUND, GROUP
    where = torch.arange(size * width, dtype=torch.int32).view(size, width)
    pack = torch.ops.aten._convert_weight_to_int4pack_for_cpu
    digits = [pack((where >> (4 * digit)) & 15, 1).int() for digit in range(3)]
    low = sum((part & 15) << (4 * digit) for digit, part in enumerate(digits)).flatten()
    high = sum((part >> 4) << (4 * digit) for digit, part in enumerate(digits)).flatten()
    for rows in (16, 32, 64):
        half = rows // 2
        for first, second in (
            (slice(0, half), slice(half, rows)),
            (slice(0, rows, 2), slice(1, rows, 2)),
        ):
            lines = where.view(-1, rows, width).transpose(1, 2)  # [blocks, K, rows]
            if torch.equal(lines[..., first].flatten(), low) and torch.equal(
                lines[..., second].flatten(), high
            ):
                return Layout(rows, first, second)
    return None


def many_from() -> int:
    """Rows of x from which dequantising pays on this CPU (docs/log.md); never in unknown order."""
    if layout() is None:
        return 1 << 30
    return MANY


@dataclass(frozen=True, slots=True)
class Stacked:
    """Matrices one below the other that differ in kind; results are joined."""

    parts: tuple[Linear, ...]

    @property
    def width(self) -> int:
        return self.parts[0].width

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts)

    def __call__(self, x: Tensor) -> Tensor:
        return torch.cat([part(x) for part in self.parts], 1)


def packed_bytes(matrices: Sequence[Linear]) -> int:
    """Bytes of these that are in 4-bit blocks."""
    parts = [part for x in matrices for part in (x.parts if isinstance(x, Stacked) else (x,))]
    return sum(part.nbytes for part in parts if isinstance(part, Packed))


@dataclass(frozen=True, slots=True)
class PackedRows:
    """An embedding as its file holds it, of any kind; rows are unpacked when looked up."""

    blocks: Blocks
    unpack: Callable[[Tensor, int], Tensor]  # uint8 [n, bytes], kind -> float32 [n, K]

    @property
    def device(self) -> torch.device:
        return self.blocks.raw.device

    @property
    def nbytes(self) -> int:
        return self.blocks.raw.nbytes

    def __call__(self, ids: Tensor) -> Tensor:
        """ids [m] -> bf16 [m, hidden], the numbers that the unpacked embedding holds."""
        return self.unpack(self.blocks.raw[ids], self.blocks.kind).bfloat16()
