"""The lean decoder: one forward pass of a Llama-shaped model over a KV buffer it does not own.

Knows weights and layers; nothing of files, rounds or sampling.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from specdec.attention import Step, Turn, attend, make_turns, rotate, store
from specdec.families import Shape
from specdec.linear import Linear
from specdec.packed import PackedRows

See = Callable[[int, Tensor], None]
"""Shown what enters each layer, by its index, and what leaves the last, by their number."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One block; Q, K and V are one matrix, gate and up another. `kind` is its place in `kinds`.

    Norms in fp32 are of a family that rounds only after scaling (Gemma).
    """

    norm_in: Tensor  # [hidden]
    qkv: Linear
    qk_norm: Tensor | None  # [heads + kv_heads, head_dim]
    out: Linear
    norm_mid: Tensor  # [hidden]
    gate_up: Linear
    down: Linear
    kind: int = 0
    norm_out: Tensor | None = None  # [hidden], of what attention adds
    norm_down: Tensor | None = None  # [hidden], of what the MLP adds


@dataclass(frozen=True, slots=True)
class Weights:
    """A whole model. `embed` may be narrower than `dtype`: looked up, then widened."""

    shape: Shape
    dtype: torch.dtype
    embed: Tensor | PackedRows  # [rows, hidden]
    layers: tuple[Layer, ...]
    norm: Tensor  # [hidden]
    head: Linear
    embed_scale: float = 1.0

    def matrices(self) -> list[Linear]:
        """Every matrix a step reads."""
        per_layer = [m for x in self.layers for m in (x.qkv, x.out, x.gate_up, x.down)]
        return [*per_layer, self.head]


@dataclass(frozen=True, slots=True)
class Buffers:
    """KV of one sequence and the rotary tables for its positions."""

    kv: Tensor  # [layers, 2, kv_heads, slots, head_dim]
    turns: tuple[Turn | None, ...]  # one a kind of layer; None = not rotated


def make_buffers(shape: Shape, slots: int, dtype: torch.dtype, device: torch.device) -> Buffers:
    """Zeroed buffers: a masked slot is multiplied by 0, and 0 times rubbish may be NaN."""
    size = (shape.layers, 2, shape.kv_heads, slots, shape.head_dim)
    return Buffers(
        torch.zeros(size, dtype=dtype, device=device), make_turns(shape, slots, dtype, device)
    )


@torch.inference_mode()
def hidden_states(
    weights: Weights, ids: Tensor, buffers: Buffers, step: Step, see: See | None = None
) -> Tensor:
    """Append ids [m] to the cache and return the last layer's output [m, hidden], before norm."""
    count = len(weights.layers)
    x = layers(weights, embed(weights, ids), buffers, step, range(count), see)
    if see is not None:
        see(count, x)
    return x


@torch.inference_mode()
def layers(
    weights: Weights,
    x: Tensor,
    buffers: Buffers,
    step: Step,
    which: range,
    see: See | None = None,
) -> Tensor:
    """Rows x [m, hidden] through some layers, whose K and V are written: what leaves the last."""
    for index in which:
        if see is not None:
            see(index, x)
        x = _block(weights, index, x, buffers, step)
    return x


@torch.inference_mode()
def fill(
    weights: Weights, ids: Tensor, buffers: Buffers, step: Step, see: See | None = None
) -> None:
    """Append ids [m] to the cache and nothing else: the last block stops at its K and V."""
    last = len(weights.layers) - 1
    x = layers(weights, embed(weights, ids), buffers, step, range(last), see)
    if see is not None:
        see(last, x)
    _project(weights, index=last, x=x, buffers=buffers, step=step)


@torch.inference_mode()
def logits(weights: Weights, hidden: Tensor) -> Tensor:
    """[m, hidden] -> [m, rows], in the model's dtype; in fp32 where a soft cap bends them."""
    out = weights.head(_norm(weights, hidden, weights.norm))
    cap = weights.shape.logit_cap
    return out if cap is None else torch.tanh(out.float() / cap) * cap


@torch.inference_mode()
def embed(weights: Weights, ids: Tensor) -> Tensor:
    """ids [m] -> what enters the first layer [m, hidden]."""
    table = weights.embed
    x = F.embedding(ids, table) if isinstance(table, Tensor) else table(ids)
    x = x.to(weights.dtype)
    return x if weights.embed_scale == 1.0 else x * weights.embed_scale


def _norm(weights: Weights, x: Tensor, scale: Tensor) -> Tensor:
    if scale.dtype != x.dtype:
        return F.rms_norm(x.float(), (x.shape[-1],), scale, weights.shape.eps).to(x.dtype)
    return F.rms_norm(x, (x.shape[-1],), scale, weights.shape.eps)


def _block(weights: Weights, index: int, x: Tensor, buffers: Buffers, step: Step) -> Tensor:
    layer, shape = weights.layers[index], weights.shape
    query = _project(weights, index, x, buffers, step)
    more = layer.out(attend(shape, query, buffers.kv[index], step, step.views[layer.kind]))
    x = x + (more if layer.norm_out is None else _norm(weights, more, layer.norm_out))
    more = feed_forward(shape, layer, _norm(weights, x, layer.norm_mid))
    return x + (more if layer.norm_down is None else _norm(weights, more, layer.norm_down))


def feed_forward(shape: Shape, layer: Layer, x: Tensor) -> Tensor:
    """A layer's MLP on what is normalised already: [m, hidden] -> [m, hidden]."""
    gate, up = layer.gate_up(x).chunk(2, -1)
    gate = F.silu(gate) if shape.activation == "silu" else F.gelu(gate, approximate="tanh")
    return layer.down(gate * up)


def _project(weights: Weights, index: int, x: Tensor, buffers: Buffers, step: Step) -> Tensor:
    """As `project`, of what enters the layer."""
    layer = weights.layers[index]
    x = _norm(weights, x, layer.norm_in)
    turn = buffers.turns[layer.kind]
    return project(weights.shape, layer, x, buffers.kv[index], turn, step)


def project(
    shape: Shape, layer: Layer, x: Tensor, cache: Tensor, turn: Turn | None, step: Step
) -> Tensor:
    """Write K and V of rows x; return the rotated queries [m, heads, head_dim]."""
    qkv = layer.qkv(x).reshape(len(x), -1, shape.head_dim)
    both = shape.heads + shape.kv_heads
    qk, value = qkv[:, :both], qkv[:, both:]
    if layer.qk_norm is not None:
        wide = qk.to(layer.qk_norm.dtype)
        qk = (F.rms_norm(wide, (shape.head_dim,), None, shape.eps) * layer.qk_norm).to(qk.dtype)
    if turn is not None:
        qk = rotate(qk, turn, step.start)
    store(cache, step.start, qk[:, shape.heads :], value)
    return qk[:, : shape.heads]
