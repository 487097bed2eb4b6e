"""Dense, oneDNN-packed and packed int4 matrices behind one call.

Knows matrices; nothing of layers, models or files.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from specdec.errors import DeviceError, LoadError

Form = Literal["dense", "onednn", "int4", "int8", "fp16"]

GROUP = 32
"""Weights that share one scale and minimum; the block size of GGUF's Q4 kinds too."""

PACK_ROWS = 16
"""oneDNN is told to expect this many rows: packed for one, row 0 would take other kernels."""

FBGEMM_BAND = 8192
"""Matrix rows packed at a time: fbgemm's packer takes three times as long a weight for 150,000."""

BAND = 512
"""Matrix rows quantised at a time, a multiple of the packer's 64: all passes stay in the cache."""


class Linear(Protocol):
    """y = x W^T + b for x [m, K], W [N, K]."""

    @property
    def width(self) -> int:
        """K, the numbers a row of x has."""

    @property
    def nbytes(self) -> int:
        """Bytes one call reads."""

    def __call__(self, x: Tensor) -> Tensor:
        """x [m, K] -> [m, N], in x's dtype."""


@dataclass(frozen=True, slots=True)
class Dense:
    """A plain matrix, any device."""

    weight: Tensor  # [N, K]
    bias: Tensor | None = None  # [N]

    @property
    def width(self) -> int:
        return self.weight.shape[1]

    @property
    def nbytes(self) -> int:
        return self.weight.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


@dataclass(frozen=True, slots=True)
class OneDnn:
    """Reordered for oneDNN: fp32 on any CPU, half precision on one that multiplies it.

    4 to 16 rows cost about what one does, and one row of bf16 a third of what `F.linear` takes,
    which reads the plain order (docs/log.md).
    """

    packed: Tensor  # opaque
    bias: Tensor | None
    width: int
    nbytes: int

    @classmethod
    def pack(cls, weight: Tensor, bias: Tensor | None) -> OneDnn:
        """Reorder `weight` [N, K]; the caller drops the plain copy."""
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, PACK_ROWS)
        return cls(packed, bias, weight.shape[1], weight.nbytes)

    def __call__(self, x: Tensor) -> Tensor:
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")
        return y


@dataclass(frozen=True, slots=True)
class Fp16:
    """bf16 or fp16 values kept in fp16, by fbgemm: for an x86 CPU that multiplies neither.

    fbgemm widens them in registers, so one to six rows cost about what reading the matrix does:
    3.7 to 5.0 ms for 17920 x 1536 where torch's own bf16 takes 5.0 for one row and 26 for eight
    (docs/log.md). Sums are fp32 and results x's dtype, as in hardware.
    """

    bands: tuple[Any, ...]  # torch's ScriptObjects, rows below rows; they hold the bias too
    shrink: float  # the weights were divided by it, a power of two
    width: int
    nbytes: int

    @classmethod
    def pack(cls, weight: Tensor, bias: Tensor | None) -> Fp16:
        """Pack `weight` [N, K] and `bias`; the caller drops the plain copy.

        fp16 has more digits than bf16 but a smaller range. Scaled by a power of two to the top of
        it, only values below 2^-28 of the largest are changed, by at most 2^-39 of the largest.
        Raises LoadError for weights that are not finite, and for fp32: those it would change.
        """
        if weight.dtype == torch.float32:
            raise LoadError(
                "Matrices in fp32 cannot be packed in fp16 unchanged.", "Use --dtype bf16 or fp16."
            )
        rows = torch.split(weight, FBGEMM_BAND)
        vectors = torch.split(bias.float(), FBGEMM_BAND) if bias is not None else [None] * len(rows)
        largest = max(float(band.float().abs_().amax()) for band in rows)
        if not math.isfinite(largest):  # fbgemm would turn it into a finite number
            raise LoadError("A matrix holds values that are not numbers.", "Fetch the model anew.")
        shrink = 2.0 ** (math.frexp(largest)[1] - 15)
        prepack = torch.ops.quantized.linear_prepack_fp16
        bands = [
            prepack(band.to(torch.float32, copy=True).div_(shrink), vector)
            for band, vector in zip(rows, vectors, strict=True)
        ]
        return cls(tuple(bands), shrink, weight.shape[1], 2 * weight.numel())

    def __call__(self, x: Tensor) -> Tensor:
        wide = x.float() * self.shrink
        parts = [torch.ops.quantized.linear_dynamic_fp16(wide, band) for band in self.bands]
        y = parts[0] if len(parts) == 1 else torch.cat(parts, 1)
        return y.to(x.dtype)


@dataclass(frozen=True, slots=True)
class Int8:
    """8 bits a weight with a scale a row, 7 bits an activation, by fbgemm: for drafts on x86.

    One to six rows of 17920 x 1536 take 2 ms where int4 takes 2.7 to 9.7 without AVX512. All rows
    of a call share one activation scale, so a row's result depends on its neighbours.
    """

    bands: tuple[Any, ...]
    width: int
    nbytes: int

    @classmethod
    def pack(cls, weight: Tensor, bias: Tensor | None) -> Int8:
        """Quantise `weight` [N, K] by rows, rounding to the nearest."""
        rows = torch.split(weight, FBGEMM_BAND)
        vectors = torch.split(bias.float(), FBGEMM_BAND) if bias is not None else [None] * len(rows)
        bands = []
        for band, vector in zip(rows, vectors, strict=True):
            wide = band.to(torch.float32, copy=True)
            scale = (wide.abs().amax(1) / 127).clamp_min_(1e-12)
            q = wide.div_(scale[:, None]).round_().to(torch.int8)
            zero = torch.zeros(len(q), dtype=torch.int64)
            quantised = torch._make_per_channel_quantized_tensor(q, scale.double(), zero, 0)
            bands.append(torch.ops.quantized.linear_prepack(quantised, vector))
        return cls(tuple(bands), weight.shape[1], weight.numel())

    def __call__(self, x: Tensor) -> Tensor:
        """Raises DeviceError for numbers that are not finite: they have no scale."""
        wide = x.float()
        try:
            parts = [torch.ops.quantized.linear_dynamic(wide, band, True) for band in self.bands]
        except RuntimeError as error:
            if torch.isfinite(wide).all():
                raise
            raise DeviceError(
                "The model computed scores that are not numbers.", "Try another dtype."
            ) from error
        y = parts[0] if len(parts) == 1 else torch.cat(parts, 1)
        return y.to(x.dtype)


@dataclass(frozen=True, slots=True)
class Int4:
    """w = (q - 8) * scale + zero by groups of 32 along K, bf16 activations, CPU."""

    packed: Tensor  # uint8 [Np, K/2], Np = N rounded up
    scales: Tensor  # bf16 [K/32, Np, 2]: scale, zero
    bias: Tensor | None
    rows: int  # N

    @property
    def width(self) -> int:
        return 2 * self.packed.shape[1]

    @classmethod
    def pack(cls, weight: Tensor, bias: Tensor | None) -> Int4:
        """Quantise `weight` [N, K]; K must be a multiple of GROUP."""
        bands = [_pack_band(band) for band in torch.split(weight, BAND)]
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


def multiplies(dtype: torch.dtype) -> bool:
    """Whether this CPU multiplies matrices of `dtype` in hardware, half ones by AVX512, AMX or Arm.

    False where this torch was built without oneDNN, which does it.
    """
    if not has_onednn():
        return False
    if dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    if dtype == torch.float16:
        return bool(torch.ops.mkldnn._is_mkldnn_fp16_supported())
    return dtype == torch.float32


def has_onednn() -> bool:
    """True where this torch was built with oneDNN."""
    return bool(torch._C._has_mkldnn)


def has_fbgemm() -> bool:
    """True where torch multiplies by fp16 matrices in registers: x86 with AVX2."""
    return torch.backends.quantized.engine in ("x86", "fbgemm")


def make(weight: Tensor, bias: Tensor | None, form: Form) -> Linear:
    """Wrap one matrix, already in the dtype and on the device it will run in.

    Of int8, matrices wider than high stay in fp16: they read the products of an MLP, whose few huge
    values leave 7 bits nothing for the rest (the draft then agreed in 76 % of places, not 91).
    """
    if form == "int4":
        return Int4.pack(weight, bias)
    if form == "int8" and weight.shape[1] <= weight.shape[0]:
        return Int8.pack(weight, bias)
    if form in ("fp16", "int8"):
        return Fp16.pack(weight, bias)
    if form == "onednn":
        return OneDnn.pack(weight, bias)
    return Dense(weight, bias)
