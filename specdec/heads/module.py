"""The arithmetic of an EAGLE-3 head: states and tokens in, a guess at the next state out.

    f_i = W [g_i^a ; g_i^b ; g_i^c]                 the target's states of token i, fused
    h_i = layer([norm e(t_{i+1}) ; norm f_i])       attends to rows before it; round it goes f_i
    law of t_{i+2} = softmax(W_out norm h_i)        over the head's own, fewer ids

Drafting further, the head's own h_{i} stands where f_{i+1} is not known yet. EAGLE-3, section 3
(Li et al., arXiv 2503.01840); the switches are those of vllm-project/speculators' config.
Knows tensors of one head; nothing of files, rounds, acceptance or sampling.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from specdec.attention import Step, attend
from specdec.decoder import Buffers, Layer, feed_forward, project
from specdec.heads.shape import HeadShape
from specdec.linear import Linear
from specdec.packed import PackedRows


@dataclass(frozen=True, slots=True)
class Head:
    """A whole head. `embed` may be the target's own; `layer.norm_in` is of the embedding.

    `ids` are the target's ids of the head's: int64 [drafts]; None = the same ids.
    """

    shape: HeadShape
    dtype: torch.dtype
    embed: Tensor | PackedRows  # [rows, hidden]
    fc: Linear  # taps * target_hidden -> hidden
    norm_states: Tensor | None  # [taps * target_hidden] at once, or [taps, target_hidden] each
    norm_hidden: Tensor  # [hidden]
    layer: Layer
    norm: Tensor  # [hidden]
    out: Linear  # hidden -> drafts
    ids: Tensor | None

    def matrices(self) -> list[Linear]:
        """Every matrix a step reads, but `fc`, which it reads once a token of the truth."""
        layer = self.layer
        return [layer.qkv, layer.out, layer.gate_up, layer.down, self.out]


@torch.inference_mode()
def features(head: Head, states: Tensor) -> Tensor:
    """Fuse the target's states [m, taps * target_hidden] -> f [m, hidden]."""
    states = states.to(head.dtype)
    if (scale := head.norm_states) is not None:
        states = _norm(head, states.reshape(len(states), *scale.shape), scale).flatten(1)
    return head.fc(states)


@torch.inference_mode()
def fill(head: Head, ids: Tensor, fused: Tensor, buffers: Buffers, step: Step) -> None:
    """Append rows to the cache and nothing else: the one layer stops at its K and V."""
    _project(head, ids, _norm(head, fused, head.norm_hidden), buffers, step)


@torch.inference_mode()
def forward(head: Head, ids: Tensor, fused: Tensor, buffers: Buffers, step: Step) -> Tensor:
    """Append rows of ids [m] and f [m, hidden], and return what stands for the next f: [m, hidden].

    Row i has t_{i+1} and f_i, as the equations above.
    """
    normed = _norm(head, fused, head.norm_hidden)
    query = _project(head, ids, normed, buffers, step)
    block, layer = head.shape.block, head.layer
    seen = attend(block, query, buffers.kv[0], step, step.views[layer.kind])
    x = (normed if head.shape.norm_before_residual else fused) + layer.out(seen)
    x = x + feed_forward(block, layer, _norm(head, x, layer.norm_mid))
    return _norm(head, x, head.norm) if head.shape.norm_output else x


@torch.inference_mode()
def scores(head: Head, hidden: Tensor) -> Tensor:
    """[m, hidden] of `forward` -> logits of the head's own ids, float32 [m, drafts]."""
    hidden = hidden if head.shape.norm_output else _norm(head, hidden, head.norm)
    return head.out(hidden).float()


def _project(head: Head, ids: Tensor, normed: Tensor, buffers: Buffers, step: Step) -> Tensor:
    embed, layer = head.embed, head.layer
    x = F.embedding(ids, embed) if isinstance(embed, Tensor) else embed(ids)
    x = torch.cat((_norm(head, x.to(head.dtype), layer.norm_in), normed), 1)
    return project(head.shape.block, layer, x, buffers.kv[0], buffers.turns[layer.kind], step)


def _norm(head: Head, x: Tensor, scale: Tensor) -> Tensor:
    """RMS over the last axis, times `scale`, whose leading axes are x's own."""
    return F.rms_norm(x, scale.shape[-1:], None, head.shape.block.eps) * scale
