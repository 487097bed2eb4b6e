"""The head as a module to train, fed its own outputs for several steps.

    f_i = W [g_i^a ; g_i^b ; g_i^c]                    step 0 begins with the target's states
    h_i^s = layer([norm e(t_{i+1+s}) ; norm h_i^{s-1}])   h^{-1} = f; row i stands at place i + s
    law of t_{i+2+s} = softmax(W_out norm h_i^s)

Row i of step s sees rows 0..i of step 0, and of steps 1..s its own row alone: what a chain of s
drafts after token i + 1 has in its cache. That is "training-time test" of EAGLE-3, section 3.2
(Li et al., arXiv 2503.01840). `specdec/heads/module.py` computes the same, a token at a time.
Knows tensors; nothing of files, laws or optimisers. Parameters are named as SafeAILab/EAGLE does.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from specdec.families import Shape


@dataclass(frozen=True, slots=True)
class Size:
    """The numbers of a head; its layer is as wide as the target's."""

    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    theta: float
    context: int
    taps: tuple[int, ...]

    @classmethod
    def of(cls, shape: Shape, taps: tuple[int, ...]) -> Size:
        """A head for a target of this shape, with the target's plain rotation."""
        thetas = [kind.rope.theta for kind in shape.kinds if kind.rope is not None]
        return cls(
            shape.hidden,
            shape.intermediate,
            shape.heads,
            shape.kv_heads,
            shape.head_dim,
            shape.eps,
            thetas[0] if thetas else 1e4,
            shape.context,
            taps,
        )


class _Norm(nn.Module):
    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self._eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x.float(), x.shape[-1:], self.weight, self._eps)


def _linear(width: int, rows: int) -> nn.Linear:
    return nn.Linear(width, rows, bias=False)


class _Attention(nn.Module):
    """Over step 0's rows and, for later steps, the row's own of the steps between."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self._size = size
        wide, narrow = size.heads * size.head_dim, size.kv_heads * size.head_dim
        self.q_proj = _linear(2 * size.hidden, wide)
        self.k_proj = _linear(2 * size.hidden, narrow)
        self.v_proj = _linear(2 * size.hidden, narrow)
        self.o_proj = _linear(wide, size.hidden)

    def forward(self, x: Tensor, step: int, memory: list[tuple[Tensor, Tensor]]) -> Tensor:
        """x [b, t, 2 * hidden] -> [b, t, hidden]; K and V of this step go onto `memory`."""
        query = self._turned(self._split(self.q_proj(x), self._size.heads), step)
        key = self._turned(self._split(self.k_proj(x), self._size.kv_heads), step)
        group = self._size.heads // self._size.kv_heads
        value = self._split(self.v_proj(x), self._size.kv_heads).repeat_interleave(group, 1)
        memory.append((key.repeat_interleave(group, 1), value))
        if step == 0:
            out = F.scaled_dot_product_attention(query, *memory[0], is_causal=True)
        else:
            out = self._over(query, memory)
        return self.o_proj(out.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def _over(self, query: Tensor, memory: list[tuple[Tensor, Tensor]]) -> Tensor:
        (first_k, first_v), t = memory[0], query.shape[2]
        scale = self._size.head_dim**-0.5
        later = torch.ones(t, t, dtype=torch.bool, device=query.device).triu(1)
        base = (query @ first_k.transpose(2, 3) * scale).masked_fill(later, -torch.inf)
        own = [(query * key).sum(-1, keepdim=True) * scale for key, _ in memory[1:]]
        weight = torch.cat((base, *own), -1).float().softmax(-1).to(query.dtype)
        out = weight[..., :t] @ first_v
        for place, (_, value) in enumerate(memory[1:]):
            out = out + weight[..., t + place, None] * value
        return out

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return x.view(*x.shape[:-1], heads, self._size.head_dim).transpose(1, 2)

    def _turned(self, x: Tensor, step: int) -> Tensor:
        """Rotate x [b, heads, t, head_dim]: row i stands at place i + step."""
        size = self._size.head_dim
        exponent = torch.arange(0, size, 2, device=x.device, dtype=torch.float32) / size
        places = torch.arange(step, step + x.shape[2], device=x.device, dtype=torch.float32)
        angles = torch.outer(places, self._size.theta**-exponent)
        cos, sin = torch.cat((angles, angles), 1).cos(), torch.cat((-angles, angles), 1).sin()
        low, high = x.chunk(2, -1)
        return x * cos.to(x.dtype) + torch.cat((high, low), -1) * sin.to(x.dtype)


class _Mlp(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.gate_proj = _linear(size.hidden, size.intermediate)
        self.up_proj = _linear(size.hidden, size.intermediate)
        self.down_proj = _linear(size.intermediate, size.hidden)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))  # type: ignore[no-any-return]


class _Layer(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.input_layernorm = _Norm(size.hidden, size.eps)  # of the embedding
        self.hidden_norm = _Norm(size.hidden, size.eps)
        self.self_attn = _Attention(size)
        self.post_attention_layernorm = _Norm(size.hidden, size.eps)
        self.mlp = _Mlp(size)

    def forward(
        self, embedded: Tensor, hidden: Tensor, step: int, memory: list[tuple[Tensor, Tensor]]
    ) -> Tensor:
        both = torch.cat((self.input_layernorm(embedded), self.hidden_norm(hidden)), -1)
        x = hidden + self.self_attn(both, step, memory)
        return x + self.mlp(self.post_attention_layernorm(x))  # type: ignore[no-any-return]


class DraftHead(nn.Module):
    """What is trained: fc, one layer, the norms. Embedding and output matrix are the target's."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size
        self.fc = _linear(len(size.taps) * size.hidden, size.hidden)
        self.midlayer = _Layer(size)
        self.norm = _Norm(size.hidden, size.eps)

    def forward(self, taps: Tensor, embedded: Tensor, steps: int) -> list[Tensor]:
        """Unroll: taps [b, t, taps * hidden], embedded [b, t + steps - 1, hidden] of t_{i+1} on.

        Returns norm h_i^s for s = 0..steps: [b, t, hidden] each, to multiply by the output matrix.
        """
        hidden, t = self.fc(taps), taps.shape[1]
        memory: list[tuple[Tensor, Tensor]] = []
        out = []
        for step in range(steps):
            hidden = self.midlayer(embedded[:, step : step + t], hidden, step, memory)
            out.append(self.norm(hidden))
        return out
