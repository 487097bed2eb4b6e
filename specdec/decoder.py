"""The lean decoder: one forward pass of a Llama-shaped model over a KV buffer it does not own.

Knows weights, positions and masks; nothing of files, rounds or sampling.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from specdec.families import Rope, Shape
from specdec.linear import Linear


@dataclass(frozen=True, slots=True)
class Layer:
    """One block; Q, K and V are one matrix, gate and up another."""

    norm_in: Tensor  # [hidden]
    qkv: Linear
    qk_norm: Tensor | None  # [heads + kv_heads, head_dim]
    out: Linear
    norm_mid: Tensor  # [hidden]
    gate_up: Linear
    down: Linear


@dataclass(frozen=True, slots=True)
class Weights:
    """A whole model. `embed` may be narrower than `dtype`: looked up, then widened."""

    shape: Shape
    dtype: torch.dtype
    embed: Tensor  # [rows, hidden]
    layers: tuple[Layer, ...]
    norm: Tensor  # [hidden]
    head: Linear

    def matrices(self) -> list[Linear]:
        """Every matrix a step reads."""
        per_layer = [m for x in self.layers for m in (x.qkv, x.out, x.gate_up, x.down)]
        return [*per_layer, self.head]


@dataclass(frozen=True, slots=True)
class Buffers:
    """KV of one sequence and the rotary tables for its positions."""

    kv: Tensor  # [layers, 2, kv_heads, slots, head_dim]
    cos: Tensor  # [slots, 1, head_dim]
    sin: Tensor  # [slots, 1, head_dim]; the first half is negated


@dataclass(frozen=True, slots=True)
class Step:
    """m rows go to positions start..start+m and see the first `slots` cache slots, masked.

    The attention takes its queries in `blocks` of `tile` rows, the last one padded: with a fixed
    tile, its geometry for a row depends on `start` alone.
    """

    start: int
    slots: int
    tile: int
    blocks: int
    mask: Tensor | None  # [blocks, 1, group * tile, slots], added to scores; None = all are seen


def make_buffers(shape: Shape, slots: int, dtype: torch.dtype, device: torch.device) -> Buffers:
    """Zeroed buffers: a masked slot is multiplied by 0, and 0 times rubbish may be NaN."""
    size = (shape.layers, 2, shape.kv_heads, slots, shape.head_dim)
    angles = torch.outer(torch.arange(slots).float(), inverse_frequencies(shape))
    cos, sin = angles.cos(), angles.sin()
    return Buffers(
        torch.zeros(size, dtype=dtype, device=device),
        torch.cat((cos, cos), 1)[:, None].to(device, dtype),
        torch.cat((-sin, sin), 1)[:, None].to(device, dtype),
    )


def make_step(shape: Shape, start: int, rows: int, slots: int, tile: int, like: Tensor) -> Step:
    """A causal step for `rows` rows from `start`; `like` gives device and dtype of the mask."""
    blocks = -(-rows // tile)
    if tile == 1 and slots == start + rows:
        return Step(start, slots, tile, blocks, None)
    mask = torch.full((blocks * tile, slots), -math.inf, dtype=like.dtype, device=like.device)
    mask = mask.triu_(start + 1).view(blocks, 1, tile, slots)
    return Step(start, slots, tile, blocks, mask.repeat(1, 1, shape.heads // shape.kv_heads, 1))


@torch.inference_mode()
def hidden_states(weights: Weights, ids: Tensor, buffers: Buffers, step: Step) -> Tensor:
    """Append ids [m] to the cache and return the last layer's output [m, hidden], before norm."""
    x = _embed(weights, ids)
    for index in range(len(weights.layers)):
        x = _block(weights, index, x, buffers, step)
    return x


@torch.inference_mode()
def fill(weights: Weights, ids: Tensor, buffers: Buffers, step: Step) -> None:
    """Append ids [m] to the cache and nothing else: the last block stops at its K and V."""
    x = _embed(weights, ids)
    last = len(weights.layers) - 1
    for index in range(last):
        x = _block(weights, index, x, buffers, step)
    _project(weights, index=last, x=x, buffers=buffers, step=step)


@torch.inference_mode()
def logits(weights: Weights, hidden: Tensor) -> Tensor:
    """[m, hidden] -> [m, rows], in the model's dtype."""
    return weights.head(_norm(weights, hidden, weights.norm))


def _embed(weights: Weights, ids: Tensor) -> Tensor:
    return F.embedding(ids, weights.embed).to(weights.dtype)


def _norm(weights: Weights, x: Tensor, scale: Tensor) -> Tensor:
    return F.rms_norm(x, (x.shape[-1],), scale, weights.shape.eps)


def _block(weights: Weights, index: int, x: Tensor, buffers: Buffers, step: Step) -> Tensor:
    layer = weights.layers[index]
    query = _project(weights, index, x, buffers, step)
    x = x + layer.out(_attend(weights.shape, query, buffers.kv[index], step))
    gate, up = layer.gate_up(_norm(weights, x, layer.norm_mid)).chunk(2, -1)
    return x + layer.down(F.silu(gate) * up)


def _project(weights: Weights, index: int, x: Tensor, buffers: Buffers, step: Step) -> Tensor:
    """Write K and V of these rows; return the rotated queries [m, heads, head_dim]."""
    shape, layer, end = weights.shape, weights.layers[index], step.start + x.shape[0]
    qkv = layer.qkv(_norm(weights, x, layer.norm_in)).reshape(len(x), -1, shape.head_dim)
    both = shape.heads + shape.kv_heads
    qk, value = qkv[:, :both], qkv[:, both:]
    if layer.qk_norm is not None:
        qk = F.rms_norm(qk, (shape.head_dim,), None, shape.eps) * layer.qk_norm
    low, high = qk.chunk(2, -1)
    turned = torch.cat((high, low), -1)
    qk = torch.addcmul(qk * buffers.cos[step.start : end], turned, buffers.sin[step.start : end])
    cache = buffers.kv[index]
    cache[0, :, step.start : end] = qk[:, shape.heads :].transpose(0, 1)
    cache[1, :, step.start : end] = value.transpose(0, 1)
    return qk[:, : shape.heads]


def _attend(shape: Shape, query: Tensor, cache: Tensor, step: Step) -> Tensor:
    """Query heads that share a KV head become rows of one product: no copy of K and V.

    [m, heads, head_dim] -> [m, heads * head_dim]
    """
    m, group, size = query.shape[0], shape.heads // shape.kv_heads, shape.head_dim
    if (padding := step.blocks * step.tile - m) > 0:
        query = F.pad(query, (0, 0, 0, 0, 0, padding))
    rows = query.reshape(step.blocks, step.tile, shape.kv_heads, group, size)
    seen = cache[:, None, :, : step.slots].expand(-1, step.blocks, -1, -1, -1)
    out = F.scaled_dot_product_attention(
        rows.permute(0, 2, 3, 1, 4).reshape(step.blocks, shape.kv_heads, -1, size),
        seen[0],
        seen[1],
        attn_mask=step.mask,
    )
    out = out.view(step.blocks, shape.kv_heads, group, step.tile, size).permute(0, 3, 1, 2, 4)
    return out.reshape(step.blocks * step.tile, -1)[:m]


def inverse_frequencies(shape: Shape) -> Tensor:
    """float32 [head_dim / 2]; llama3 scaling as in Meta's Llama 3.1 code and transformers."""
    exponent = torch.arange(0, shape.head_dim, 2, dtype=torch.int64).float() / shape.head_dim
    plain = 1.0 / (shape.rope.theta**exponent)
    if shape.rope.kind == "linear":
        return plain / shape.rope.factor
    return _llama3(plain, shape.rope) if shape.rope.kind == "llama3" else plain


def _llama3(plain: Tensor, rope: Rope) -> Tensor:
    """Long wavelengths are stretched by `factor`, short ones kept, those between blended."""
    wavelength = 2 * math.pi / plain
    blend = (rope.original / wavelength - rope.low_freq) / (rope.high_freq - rope.low_freq)
    blend = blend.clamp(0, 1)
    return (1 - blend) * plain / rope.factor + blend * plain
