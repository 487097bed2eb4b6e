"""Attention over a KV buffer: rotary tables, what a row may see, and the products themselves.

Knows positions, windows and masks; nothing of layers, weights or files.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from specdec.families import Shape
from specdec.rope import Rope

ALIGN = 64
"""Where a window begins is rounded down to this many slots, so that reads keep round sizes."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One rotation's tables; n is twice the number of frequencies."""

    cos: Tensor  # [slots, 1, n]
    sin: Tensor  # [slots, 1, n]; the first half is negated


@dataclass(frozen=True, slots=True)
class View:
    """Cache slots `first` up to the step's end, and which of them each row sees."""

    first: int
    mask: Tensor | None  # [blocks, 1, group * tile, slots - first], added to scores; None = all


@dataclass(frozen=True, slots=True)
class Step:
    """m rows go to positions start..start+m and see cache slots before `slots`, masked.

    A captured call has its positions in a tensor, int64 [m], so that it can be repeated elsewhere.

    The attention takes its queries in `blocks` of `tile` rows, the last one padded: with a fixed
    tile, its geometry for a row depends on `start` alone.
    """

    start: int | Tensor
    slots: int
    tile: int
    blocks: int
    views: tuple[View, ...]  # one a kind of layer


def make_step(
    shape: Shape,
    start: int,
    rows: int,
    slots: int,
    tile: int,
    like: Tensor,
    floor: int,
) -> Step:
    """A causal step for `rows` rows from `start`; `like` gives device and dtype of the masks.

    No row of any call that shares this geometry stands before `floor`: windows are read from there,
    so that what a row reads does not depend on where its call began.
    """
    blocks, group = -(-rows // tile), shape.heads // shape.kv_heads
    views = {
        window: _view(window, start, slots, tile, blocks, group, floor, like)
        for window in {kind.window for kind in shape.kinds}
    }
    return Step(start, slots, tile, blocks, tuple(views[kind.window] for kind in shape.kinds))


def _view(
    window: int | None,
    start: int,
    slots: int,
    tile: int,
    blocks: int,
    group: int,
    floor: int,
    like: Tensor,
) -> View:
    first = 0 if window is None else max(0, floor + 1 - window)
    if tile == 1 and blocks == 1 and slots == start + 1 and floor == start:
        return View(first, None)
    first = first // ALIGN * ALIGN
    width = slots - first
    mask = torch.full((blocks * tile, width), -math.inf, dtype=like.dtype, device=like.device)
    mask = mask.triu_(start + 1 - first)
    # rows that are padding may stand past the last slot: they keep the window of the last one
    if window is not None and (past := width - window) > 0:
        mask[:, :past] += torch.full_like(mask[:, :past], -math.inf).tril_(start - window - first)
    return View(first, mask.view(blocks, 1, tile, width).repeat(1, 1, group, 1))


def attend(shape: Shape, query: Tensor, cache: Tensor, step: Step, view: View) -> Tensor:
    """Query heads that share a KV head become rows of one product: no copy of K and V.

    [m, heads, head_dim] -> [m, heads * head_dim]
    """
    m, group, size = query.shape[0], shape.heads // shape.kv_heads, shape.head_dim
    if (padding := step.blocks * step.tile - m) > 0:
        query = F.pad(query, (0, 0, 0, 0, 0, padding))
    rows = query.reshape(step.blocks, step.tile, shape.kv_heads, group, size)
    rows = rows.permute(0, 2, 3, 1, 4).reshape(step.blocks, shape.kv_heads, -1, size)
    seen = cache[:, :, view.first : step.slots]
    if shape.score_cap is not None or shape.by_hand:
        out = _by_hand(rows, seen, view.mask, shape.scale or size**-0.5, shape.score_cap)
    else:
        keys, values = seen[:, None].expand(-1, step.blocks, -1, -1, -1)
        out = F.scaled_dot_product_attention(
            rows, keys, values, attn_mask=view.mask, scale=shape.scale
        )
    out = out.view(step.blocks, shape.kv_heads, group, step.tile, size).permute(0, 3, 1, 2, 4)
    return out.reshape(step.blocks * step.tile, -1)[:m]


def _by_hand(
    rows: Tensor, seen: Tensor, mask: Tensor | None, scale: float, cap: float | None
) -> Tensor:
    """Attention in fp32 between its products; with soft-capped scores, which torch's own has not.

    A block at a time: a row's products have one size, however many blocks there are.
    [blocks, kv_heads, r, head_dim] over [2, kv_heads, n, head_dim] -> like the first
    """
    out = []
    for index, block in enumerate(rows):
        scores = torch.matmul(block, seen[0].transpose(1, 2)).float() * scale
        if cap is not None:
            scores = torch.tanh(scores / cap) * cap
        if mask is not None:
            scores = scores + mask[index]
        out.append(torch.matmul(scores.softmax(-1).to(rows.dtype), seen[1]))
    return torch.stack(out)


def store(cache: Tensor, start: int | Tensor, keys: Tensor, values: Tensor) -> None:
    """Write K and V [m, kv_heads, head_dim] to a layer's cache [2, kv_heads, slots, head_dim]."""
    for which, rows in enumerate((keys.transpose(0, 1), values.transpose(0, 1))):
        if isinstance(start, Tensor):
            cache[which].index_copy_(1, start, rows)
        else:
            cache[which, :, start : start + len(keys)] = rows


def rotate(x: Tensor, turn: Turn, start: int | Tensor) -> Tensor:
    """Turn the first n numbers of x [m, heads, head_dim], whose rows stand at start..start+m."""
    size = turn.cos.shape[-1]
    if size < x.shape[-1]:
        return torch.cat((rotate(x[..., :size], turn, start), x[..., size:]), -1)
    low, high = x.chunk(2, -1)
    if isinstance(start, Tensor):
        cos, sin = turn.cos.index_select(0, start), turn.sin.index_select(0, start)
    else:
        end = start + x.shape[0]
        cos, sin = turn.cos[start:end], turn.sin[start:end]
    return torch.addcmul(x * cos, torch.cat((high, low), -1), sin)


def make_turns(
    shape: Shape, slots: int, dtype: torch.dtype, device: torch.device
) -> tuple[Turn | None, ...]:
    """Tables for positions 0..slots, one a kind of layer; one rotation is one table."""
    made: dict[Rope | None, Turn | None] = {None: None}
    for kind in shape.kinds:
        if kind.rope is not None and kind.rope not in made:
            made[kind.rope] = _turn(kind.rope, shape.head_dim, slots, dtype, device)
    return tuple(made[kind.rope] for kind in shape.kinds)


def _turn(rope: Rope, head_dim: int, slots: int, dtype: torch.dtype, device: torch.device) -> Turn:
    angles = torch.outer(torch.arange(slots).float(), inverse_frequencies(rope, head_dim))
    cos, sin = angles.cos(), angles.sin()
    return Turn(
        torch.cat((cos, cos), 1)[:, None].to(device, dtype),
        torch.cat((-sin, sin), 1)[:, None].to(device, dtype),
    )


def inverse_frequencies(rope: Rope, head_dim: int) -> Tensor:
    """float32 [rotated / 2]; llama3 scaling as in Meta's Llama 3.1 code and transformers."""
    rotated = int(head_dim * rope.share)
    exponent = torch.arange(0, rotated, 2, dtype=torch.int64).float() / rotated
    plain = 1.0 / (rope.theta**exponent)
    if rope.kind == "linear":
        return plain / rope.factor
    return _llama3(plain, rope) if rope.kind == "llama3" else plain


def _llama3(plain: Tensor, rope: Rope) -> Tensor:
    """Long wavelengths are stretched by `factor`, short ones kept, those between blended."""
    wavelength = 2 * math.pi / plain
    blend = (rope.original / wavelength - rope.low_freq) / (rope.high_freq - rope.low_freq)
    blend = blend.clamp(0, 1)
    return (1 - blend) * plain / rope.factor + blend * plain
