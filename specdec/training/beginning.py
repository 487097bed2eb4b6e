"""What a head begins as: the target's own last layer, over the last of the states it reads.

Then it can say from the first update on what that layer would, and has to learn the rest: what the
new token changes. Knows a target's files and a head's names; nothing of training.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from specdec.checkpoint import open_checkpoint
from specdec.families import Shape
from specdec.layer_reader import LayerReader
from specdec.linear import Dense, Linear
from specdec.matrices import Matrices
from specdec.training.module import DraftHead


@torch.no_grad()
def begin(head: DraftHead, folder: Path, shape: Shape) -> None:
    """Copy what the layer and the target's have in common; the rest stays as it was drawn.

    `fc` passes the last tap on. The half of the attention that reads the embedding stays random,
    and so do queries and keys that the target norms before it compares them: a head has no such
    norm. Raises LoadError.
    """
    with open_checkpoint(folder) as checkpoint:
        matrices = Matrices(checkpoint, torch.device("cpu"), torch.bfloat16, "dense")
        reader = LayerReader.over(matrices, shape)
        layer, norm = reader.layer(shape.layers - 1), reader.last_norm()
    hidden, own = shape.hidden, head.midlayer
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    head.fc.weight.zero_()
    head.fc.weight[:, -hidden:].fill_diagonal_(1)
    q, k, v = torch.split(_weight(layer.qkv), [queries, keys, keys])
    attention = own.self_attn
    if layer.qk_norm is None:
        attention.q_proj.weight[:, hidden:] = q
        attention.k_proj.weight[:, hidden:] = k
    attention.v_proj.weight[:, hidden:] = v
    gate, up = _weight(layer.gate_up).chunk(2)
    for linear, weight in (
        (attention.o_proj, _weight(layer.out)),
        (own.mlp.gate_proj, gate),
        (own.mlp.up_proj, up),
        (own.mlp.down_proj, _weight(layer.down)),
        (own.hidden_norm, layer.norm_in),
        (own.post_attention_layernorm, layer.norm_mid),
        (head.norm, norm),
    ):
        _parameter(linear).copy_(weight)


def _weight(matrix: Linear) -> Tensor:
    assert isinstance(matrix, Dense)  # as asked for above
    return matrix.weight


def _parameter(module: nn.Module) -> Tensor:
    return module.get_parameter("weight")
