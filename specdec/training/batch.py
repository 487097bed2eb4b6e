"""Many sequences at once through the lean decoder's weights: all rows in one product.

Knows weights, positions and buffers; nothing of text, files or training. Shares the lean runner's
weights and rotary tables, not its promise: a row's bits depend on its neighbours here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from specdec.attention import Turn, make_turns
from specdec.decoder import Layer, Weights
from specdec.errors import SettingError


@dataclass(frozen=True, slots=True)
class States:
    """What the target thought: `taps` of the asked layers side by side, `last` after its norm."""

    taps: Tensor  # [rows, m, taps * hidden]
    last: Tensor  # [rows, m, hidden]


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the tokens of a call stand."""

    sequences: Tensor  # int64 [rows, 1]
    positions: Tensor  # int64 [rows, m]
    slots: int  # that are read
    masks: tuple[Tensor, ...]  # bool [rows, 1, group * m, slots], one a kind of layer


KV_BYTES = 2 << 30
"""Most that the cache of sequences side by side may take."""


def rows_within(weights: Weights, slots: int, most: int) -> int:
    """How many sequences of `slots` tokens fit in `KV_BYTES`, at most `most` and at least one."""
    shape = weights.shape
    one = 2 * shape.layers * shape.kv_heads * shape.head_dim * slots * weights.dtype.itemsize
    return max(1, min(most, KV_BYTES // one))


class BatchDecoder:
    """KV buffers of `rows` sequences of at most `slots` tokens, each at its own place."""

    def __init__(self, weights: Weights, rows: int, slots: int, taps: Sequence[int] = ()) -> None:
        """`taps`: layers whose input is wanted; the number of layers means the last one's output.

        Raises SettingError for a family with parts of its own (Gemma).
        """
        shape = weights.shape
        if shape.gemma or not isinstance(weights.embed, Tensor):
            raise SettingError(
                f"A head for {shape.family} in this form cannot be trained yet.",
                "Choose a Llama, Mistral, Qwen2, Qwen3, SmolLM3 or Phi-3 target, unpacked.",
            )
        self.rows, self.slots = rows, slots
        self._weights, self._taps = weights, tuple(taps)
        self._embed, device = weights.embed, weights.embed.device
        size = (shape.layers, 2, rows, shape.kv_heads, slots, shape.head_dim)
        self._kv = torch.zeros(size, dtype=weights.dtype, device=device)
        self._turns = make_turns(shape, slots, weights.dtype, device)

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        return self._embed.device

    @torch.inference_mode()
    def states(self, ids: Tensor, starts: Tensor, longest: int) -> States:
        """Append ids [rows, m] at `starts` int64 [rows]; `longest` is the largest start.

        Fewer rows than there are buffers take the first ones.
        """
        weights, places = self._weights, self._places(ids, starts, longest)
        x = F.embedding(ids, self._embed).to(weights.dtype)
        tapped = {}
        for index, layer in enumerate(weights.layers):
            if index in self._taps:
                tapped[index] = x
            x = self._block(layer, self._kv[index], x, places)
        tapped[len(weights.layers)] = x
        taps = torch.cat([tapped[index] for index in self._taps], -1) if self._taps else x[..., :0]
        return States(taps, self._norm(x, weights.norm))

    def prefix(self, length: int) -> Tensor:
        """A copy of the first sequence's cache: [layers, 2, kv_heads, length, head_dim]."""
        return self._kv[:, :, 0, :, :length].clone()

    def begin(self, row: int, prefix: Tensor) -> None:
        """Let a sequence begin with what `prefix` gave, whoever wrote it."""
        self._kv[:, :, row, :, : prefix.shape[3]] = prefix

    @torch.inference_mode()
    def logits(self, last: Tensor) -> Tensor:
        """`last` [..., hidden] -> [..., rows of the matrix], in the model's dtype."""
        return self._apply(self._weights.head, last)

    def _places(self, ids: Tensor, starts: Tensor, longest: int) -> _Places:
        shape, (rows, m) = self._weights.shape, ids.shape
        positions = starts[:, None] + torch.arange(m, device=ids.device)
        slots = longest + m
        if slots > self.slots or rows > self.rows:
            raise ValueError(f"{rows} rows to slot {slots}: there are {self.rows} of {self.slots}")
        slot = torch.arange(slots, device=ids.device)
        masks = []
        for kind in shape.kinds:
            seen = slot <= positions[..., None]
            if kind.window is not None:
                seen &= slot > positions[..., None] - kind.window
            group = shape.heads // shape.kv_heads
            masks.append(seen[:, None].repeat(1, 1, group, 1))
        sequences = torch.arange(rows, device=ids.device)[:, None]
        return _Places(sequences, positions, slots, tuple(masks))

    def _block(self, layer: Layer, cache: Tensor, x: Tensor, places: _Places) -> Tensor:
        x = x + self._attend(layer, cache, self._norm(x, layer.norm_in), places)
        gate, up = self._apply(layer.gate_up, self._norm(x, layer.norm_mid)).chunk(2, -1)
        return x + self._apply(layer.down, F.silu(gate) * up)

    def _attend(self, layer: Layer, cache: Tensor, x: Tensor, places: _Places) -> Tensor:
        shape, (rows, m, _) = self._weights.shape, x.shape
        heads, kv_heads, size = shape.heads, shape.kv_heads, shape.head_dim
        qkv = self._apply(layer.qkv, x).view(rows, m, -1, size)
        qk, value = qkv[:, :, : heads + kv_heads], qkv[:, :, heads + kv_heads :]
        if layer.qk_norm is not None:
            qk = F.rms_norm(qk, (size,), None, shape.eps) * layer.qk_norm
        if (turn := self._turns[layer.kind]) is not None:
            qk = _rotate(qk, turn, places.positions)
        at = (places.sequences, slice(None), places.positions)
        cache[0][at], cache[1][at] = qk[:, :, heads:], value
        query = qk[:, :, :heads].view(rows, m, kv_heads, -1, size)
        query = query.permute(0, 2, 3, 1, 4).reshape(rows, kv_heads, -1, size)
        keys, values = cache[:, :rows, :, : places.slots]
        mask = places.masks[layer.kind]
        out = F.scaled_dot_product_attention(query, keys, values, mask, scale=shape.scale)
        out = out.view(rows, kv_heads, -1, m, size).permute(0, 3, 1, 2, 4)
        return self._apply(layer.out, out.reshape(rows, m, -1))

    def _norm(self, x: Tensor, scale: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), scale, self._weights.shape.eps)

    @staticmethod
    def _apply(matrix: object, x: Tensor) -> Tensor:
        """Matrices of every form take rows [n, K]."""
        assert callable(matrix)
        out: Tensor = matrix(x.flatten(0, -2))
        return out.view(*x.shape[:-1], -1)


def _rotate(x: Tensor, turn: Turn, positions: Tensor) -> Tensor:
    """x [rows, m, heads, size] by the tables' rows at `positions` [rows, m]."""
    cos, sin = turn.cos[positions], turn.sin[positions]
    size = cos.shape[-1]
    part, rest = x[..., :size], x[..., size:]
    low, high = part.chunk(2, -1)
    turned = part * cos + torch.cat((high, low), -1) * sin
    return torch.cat((turned, rest), -1) if rest.shape[-1] else turned
