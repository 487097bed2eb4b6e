"""Dense, oneDNN-packed and packed int4 matrices behind one call.

Knows matrices; nothing of layers, models or files.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

Form = Literal["dense", "int4", "twin"]

GROUP = 32
"""Weights that share one scale and minimum; the block size of GGUF's Q4 kinds too."""

PACK_ROWS = 16
"""oneDNN is told to expect this many rows: packed for one, row 0 would take other kernels."""

BAND = 512
"""Matrix rows quantised at a time, a multiple of the packer's 64: all passes stay in the cache."""


class Linear(Protocol):
    """y = x W^T + b for x [m, K], W [N, K]."""

    @property
    def nbytes(self) -> int:
        """Bytes one call reads."""

    @property
    def even_rows(self) -> bool:
        """True where a row's result is expected not to depend on how many rows come with it."""

    def __call__(self, x: Tensor) -> Tensor:
        """x [m, K] -> [m, N], in x's dtype."""


@dataclass(frozen=True, slots=True)
class Dense:
    """A plain matrix, any device."""

    weight: Tensor  # [N, K]
    bias: Tensor | None = None  # [N]
    even_rows: bool = False

    @property
    def nbytes(self) -> int:
        return self.weight.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


@dataclass(frozen=True, slots=True)
class OneDnn:
    """fp32 on a CPU, reordered for oneDNN: 4 to 16 rows cost about the same (docs/log.md)."""

    packed: Tensor  # opaque
    bias: Tensor | None
    nbytes: int
    even_rows: bool = True

    @classmethod
    def pack(cls, weight: Tensor, bias: Tensor | None) -> OneDnn:
        """Reorder `weight` (fp32 [N, K]); the caller drops the plain copy."""
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, PACK_ROWS)
        return cls(packed, bias, weight.nbytes)

    def __call__(self, x: Tensor) -> Tensor:
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")
        return y


class Scratch:
    """One fp32 buffer for a whole load: fresh memory for each matrix costs more than its copy."""

    def __init__(self) -> None:
        self._buffer = torch.empty(0)

    def widened(self, weight: Tensor) -> Tensor:
        """`weight` in fp32, valid until the next call."""
        if self._buffer.numel() < weight.numel():
            self._buffer = torch.empty(weight.numel())
        return self._buffer[: weight.numel()].view(weight.shape).copy_(weight)


@dataclass(frozen=True, slots=True)
class Twin:
    """bf16 for one row, and the same values packed in fp32 for several: for a CPU without bf16.

    Such a CPU reads one row fastest in bf16, and multiplies eight fastest in fp32: 2.4 and 6.9 ms
    against 12.7 ms for eight in bf16 (docs/log.md). Sums are fp32, results bf16, as in hardware.
    """

    weight: Tensor  # bf16 [N, K]
    wide: OneDnn
    bias: Tensor | None
    even_rows: bool = False

    @classmethod
    def pack(cls, weight: Tensor, bias: Tensor | None, scratch: Scratch) -> Twin:
        """Keep `weight` (bf16 [N, K]) and pack a copy of three times its size in all."""
        wide = OneDnn.pack(scratch.widened(weight), bias.float() if bias is not None else None)
        return cls(weight, wide, bias)

    @property
    def nbytes(self) -> int:
        return self.weight.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        if len(x) == 1:
            return F.linear(x, self.weight, self.bias)
        return self.wide(x.float()).to(x.dtype)


@dataclass(frozen=True, slots=True)
class Int4:
    """w = (q - 8) * scale + zero by groups of 32 along K, bf16 activations, CPU."""

    packed: Tensor  # uint8 [Np, K/2], Np = N rounded up
    scales: Tensor  # bf16 [K/32, Np, 2]: scale, zero
    bias: Tensor | None
    rows: int  # N
    even_rows: bool = True

    @classmethod
    def pack(cls, weight: Tensor, bias: Tensor | None) -> Int4:
        """Quantise `weight` [N, K]; K must be a multiple of GROUP."""
        starts = range(0, len(weight), BAND)
        with _one_band_a_thread() as pool:
            bands = list(pool.map(lambda start: _pack_band(weight[start : start + BAND]), starts))
        packed = torch.cat([band for band, _ in bands])
        scales = torch.cat([scale_zero for _, scale_zero in bands], 1)
        return cls(packed, scales, bias, len(weight))

    @property
    def nbytes(self) -> int:
        return self.packed.nbytes + self.scales.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        y: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(
            x.to(torch.bfloat16), self.packed, GROUP, self.scales
        )
        if y.shape[1] != self.rows:
            y = y[:, : self.rows]
        if self.bias is not None:
            y = y + self.bias
        return y.to(x.dtype)


def _pack_band(band: Tensor) -> tuple[Tensor, Tensor]:
    """[n, K] -> uint8 [np, K/2] and bf16 [K/GROUP, np, 2], np = n rounded up to 64."""
    q, scale_zero = quantise(F.pad(band, (0, 0, 0, -len(band) % 64)))
    packed: Tensor = torch.ops.aten._convert_weight_to_int4pack_for_cpu(q, 1)
    return packed, scale_zero.transpose(0, 1)


@contextmanager
def _one_band_a_thread() -> Iterator[ThreadPoolExecutor]:
    """As many bands at once as torch has threads, each on one: dozens of short passes a band
    would otherwise wait for each other at every pass, for whole time slices on a busy machine.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads) as pool:
            yield pool
    finally:
        torch.set_num_threads(threads)


def quantise(weight: Tensor) -> tuple[Tensor, Tensor]:
    """[N, K] -> q int32 [N, K] in 0..15 and bf16 [N, K/GROUP, 2] of (scale, zero).

    The scale is rounded to bf16 before q is chosen, so rounding it costs no accuracy twice.
    """
    groups = weight.to(torch.float32, copy=True).reshape(len(weight), -1, GROUP)
    low, high = groups.amin(2, keepdim=True), groups.amax(2, keepdim=True)  # faster than aminmax
    scale = ((high - low) / 15).clamp_min(1e-8).bfloat16()
    zero = (low + 8 * scale.float()).bfloat16()
    q = groups.sub_(zero.float()).div_(scale.float()).round_().add_(8).clamp_(0, 15)
    return q.to(torch.int32).flatten(1), torch.cat((scale, zero), 2)


def dequantise(q: Tensor, scale_zero: Tensor) -> Tensor:
    """The matrix that `quantise` stands for: float32 [N, K]."""
    scale, zero = scale_zero[..., :1].float(), scale_zero[..., 1:].float()
    return ((q.view(len(q), -1, GROUP) - 8) * scale + zero).flatten(1)


def can_pack_int4(weight: Tensor) -> bool:
    """True where the CPU kernel takes this matrix."""
    return weight.device.type == "cpu" and weight.shape[1] % GROUP == 0


def uses_onednn(device: torch.device, dtype: torch.dtype) -> bool:
    """True where dense matrices are packed for oneDNN: fp32 on a CPU that has it."""
    return device.type == "cpu" and dtype == torch.float32 and has_onednn()


def has_onednn() -> bool:
    """True where this torch was built with oneDNN."""
    return bool(torch._C._has_mkldnn)


def make(weight: Tensor, bias: Tensor | None, form: Form, scratch: Scratch | None = None) -> Linear:
    """Wrap one matrix, already in the dtype and on the device it will run in."""
    if form == "int4":
        return Int4.pack(weight, bias)
    if form == "twin":
        return Twin.pack(weight, bias, scratch or Scratch())
    if uses_onednn(weight.device, weight.dtype):
        return OneDnn.pack(weight, bias)
    return Dense(weight, bias)
