"""Named tensors of one family's checkpoint -> the decoder's layers.

Knows what each family calls and fuses; nothing of files, devices or forms.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from specdec import tensor_names
from specdec.decoder import Layer
from specdec.families import Shape
from specdec.linear import Linear
from specdec.matrices import Matrices, Part
from specdec.packed import PackedRows

_Wanted = tuple[tuple[Part, ...], int]


@dataclass(frozen=True, slots=True)
class LayerReader:
    """Fuses and packs a layer at a time, so that few layers are held twice."""

    matrices: Matrices
    shape: Shape
    prefix: str

    @classmethod
    def over(cls, matrices: Matrices, shape: Shape) -> LayerReader:
        """A reader of the names these tensors go by."""
        return cls(matrices, shape, tensor_names.prefix_in(matrices.checkpoint))

    def layer(self, index: int) -> Layer:
        """One block. Raises LoadError naming the tensor that is missing or misshapen."""
        shape, hidden, names = self.shape, self.shape.hidden, self._names(index)
        qkv, out, gate_up, down = self._wanted(names)
        return Layer(
            norm_in=self.norm(names.norm_in + ".weight", hidden),
            qkv=self.matrices.matrix(*qkv, shape.qkv_bias),
            qk_norm=self._qk_norm(names) if shape.qk_norm else None,
            out=self.matrices.matrix(*out, shape.out_bias),
            norm_mid=self.norm(names.norm_mid + ".weight", hidden),
            gate_up=self.matrices.matrix(*gate_up, shape.mlp_bias),
            down=self.matrices.matrix(*down, shape.mlp_bias),
            kind=shape.kind_of[index],
            norm_out=self.norm(names.norm_out + ".weight", hidden) if names.norm_out else None,
            norm_down=self.norm(names.norm_down + ".weight", hidden) if names.norm_down else None,
        )

    def dense_numbers(self, index: int) -> int:
        """Weights of a block that do not stay packed: those are held twice while they are read."""
        wanted = self._wanted(self._names(index))
        return sum(self.matrices.dense_rows(parts) * width for parts, width in wanted)

    def ends(self) -> tuple[Tensor | PackedRows, Linear]:
        """The embedding and the output matrix, which may be one. Raises LoadError."""
        size = (self.shape.rows, self.shape.hidden)
        embed = self.prefix + tensor_names.EMBED_END
        return self.matrices.ends(embed, tensor_names.HEAD, size, self.shape.tied)

    def last_norm(self) -> Tensor:
        """The norm before the output matrix."""
        return self.norm(self.prefix + tensor_names.NORM_END, self.shape.hidden)

    def norm(self, name: str, size: int) -> Tensor:
        """A norm's scale; Gemma's files hold what is added to 1, in fp32 as the model computes."""
        scale = self.matrices.vector(name, size)
        return scale.float() + 1 if self.shape.gemma else scale

    def _names(self, index: int) -> tensor_names.LayerNames:
        return tensor_names.layer_names(self.shape, index, self.prefix)

    def _wanted(self, names: tensor_names.LayerNames) -> tuple[_Wanted, _Wanted, _Wanted, _Wanted]:
        """qkv, out, gate and up, down: parts and width of each."""
        shape, hidden, inner = self.shape, self.shape.hidden, self.shape.intermediate
        queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        return (
            (_parts(names.qkv, (queries, keys, keys)), hidden),
            (((names.out, hidden),), queries),
            (_parts(names.gate_up, (inner, inner)), hidden),
            (((names.down, hidden),), inner),
        )

    def _qk_norm(self, names: tensor_names.LayerNames) -> Tensor:
        q = self.norm(names.q_norm + ".weight", self.shape.head_dim)
        k = self.norm(names.k_norm + ".weight", self.shape.head_dim)
        return torch.cat((q.expand(self.shape.heads, -1), k.expand(self.shape.kv_heads, -1)))


def _parts(names: tuple[str, ...], rows: tuple[int, ...]) -> tuple[Part, ...]:
    """Names with their rows: of each part, or of the one fused matrix a file may hold instead."""
    sizes = rows if len(names) > 1 else (sum(rows),)
    return tuple(zip(names, sizes, strict=True))
