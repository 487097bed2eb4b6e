"""A folder with an EAGLE-3 head -> a `Head`, in either layout of names.

Knows tensor names; nothing of caches, rounds or how well it drafts.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from specdec import heap
from specdec.checkpoint import Checkpoint, open_checkpoint, read_config
from specdec.decoder import Layer, Weights
from specdec.errors import LoadError
from specdec.heads.module import Head
from specdec.heads.shape import HeadShape, head_shape
from specdec.linear import Form, Linear, can_pack_int4, make
from specdec.matrices import Matrices
from specdec.packed import PackedRows

PREFIX = {"eagle": "midlayer.", "speculators": "layers.0."}
"""What the layer's tensors begin with, in each layout."""

UNREAD = ("t2d", "verifier_norm.weight", "verifier_lm_head.weight")
"""What training needs; `t2d` says what `d2t` does."""

_USE = "Choose another draft, ngram, or none."


def load_head(folder: Path, target: Weights, dtype: torch.dtype, form: Form) -> Head:
    """Read a head for this target, onto its device; without an embedding it shares the target's.

    Raises LoadError: not a head, one of another target's width, a missing or misshapen tensor, or
    one that nothing here would read, since it says that the head computes something else.
    """
    shape = head_shape(read_config(folder))
    hidden, width = target.shape.hidden, shape.target_hidden
    if width != hidden:
        raise LoadError(
            f"{folder.name} reads states of width {width}; this target's are {hidden}.", _USE
        )
    with heap.given_back(), open_checkpoint(folder) as checkpoint:
        matrices = Matrices(checkpoint, target.norm.device, dtype, form)
        return _Reader(checkpoint, matrices, shape).head(target)


class _Reader:
    """Reads each tensor once and remembers which."""

    def __init__(self, checkpoint: Checkpoint, matrices: Matrices, shape: HeadShape) -> None:
        self._checkpoint = checkpoint
        self._matrices = matrices
        self._shape = shape
        self._read: set[str] = set()

    def head(self, target: Weights) -> Head:
        shape, hidden, ids = self._shape, self._shape.block.hidden, self._ids()
        made = Head(
            shape=shape,
            dtype=self._matrices.dtype,
            embed=self._embed(target),
            fc=self._matrix(("fc",), (hidden,), shape.taps * shape.target_hidden),
            norm_states=self._norm_states(),
            norm_hidden=self._vector(self._name("hidden_norm"), hidden),
            layer=self._layer(),
            norm=self._vector("norm", hidden),
            out=self._out(target, ids),
            ids=ids,
        )
        rest = sorted(self._checkpoint.where.keys() - self._read - set(UNREAD))
        if rest := [name for name in rest if not name.endswith("rotary_emb.inv_freq")]:
            raise LoadError(
                f"{self._checkpoint.folder} holds {rest[0]}, which no head known here has.", _USE
            )
        return made

    def _layer(self) -> Layer:
        block, name = self._shape.block, self._name
        queries, keys = block.heads * block.head_dim, block.kv_heads * block.head_dim
        qkv = tuple(name(f"self_attn.{which}_proj") for which in "qkv")
        gate_up = (name("mlp.gate_proj"), name("mlp.up_proj"))
        inner, out = block.intermediate, name("self_attn.o_proj")
        return Layer(
            norm_in=self._vector(name("input_layernorm"), block.hidden),
            qkv=self._matrix(qkv, (queries, keys, keys), 2 * block.hidden, block.qkv_bias),
            qk_norm=self._qk_norm() if block.qk_norm else None,
            out=self._matrix((out,), (block.hidden,), queries, block.out_bias),
            norm_mid=self._vector(name("post_attention_layernorm"), block.hidden),
            gate_up=self._matrix(gate_up, (inner, inner), block.hidden, block.mlp_bias),
            down=self._matrix((name("mlp.down_proj"),), (block.hidden,), inner, block.mlp_bias),
        )

    def _qk_norm(self) -> Tensor:
        block = self._shape.block
        q = self._vector(self._name("self_attn.q_norm"), block.head_dim)
        k = self._vector(self._name("self_attn.k_norm"), block.head_dim)
        return torch.cat((q.expand(block.heads, -1), k.expand(block.kv_heads, -1)))

    def _norm_states(self) -> Tensor | None:
        shape = self._shape
        if shape.norm_before_fc:
            return self._vector("input_norm", shape.taps * shape.target_hidden)
        if not shape.fc_norm:
            return None
        each = [self._vector(f"fc_norm.{i}", shape.target_hidden) for i in range(shape.taps)]
        return torch.stack(each)

    def _embed(self, target: Weights) -> Tensor | PackedRows:
        name, hidden = "embed_tokens.weight", self._shape.block.hidden
        if name in self._checkpoint:
            self._read.add(name)
            weight = self._checkpoint.get(name, (self._shape.block.rows, hidden))
            return weight.to(self._matrices.device, self._matrices.dtype)
        if target.shape.hidden != hidden:
            raise LoadError(
                f"{self._checkpoint.folder} has no embedding, and the target's is"
                f" {target.shape.hidden} wide, not {hidden}.",
                _USE,
            )
        return target.embed

    def _out(self, target: Weights, ids: Tensor | None) -> Linear:
        """The output matrix; a head without one takes the target's rows of its ids."""
        shape, matrices = self._shape, self._matrices
        if "lm_head.weight" in self._checkpoint:
            return self._matrix(("lm_head",), (shape.drafts,), shape.block.hidden)
        table = target.embed if target.shape.tied else getattr(target.head, "weight", None)
        if target.shape.hidden != shape.block.hidden or table is None:
            raise LoadError(
                f"{self._checkpoint.folder} has no lm_head, and the target's cannot stand for it.",
                _USE,
            )
        rows = torch.arange(shape.drafts, device=matrices.device) if ids is None else ids
        if int(rows.max()) >= target.shape.rows:
            raise LoadError(
                f"{self._checkpoint.folder} drafts the id {int(rows.max())}, and the target's"
                f" output matrix has {target.shape.rows} rows.",
                _USE,
            )
        weight = table[rows] if isinstance(table, Tensor) else table(rows)
        weight = weight.to(matrices.device, matrices.dtype)
        form = matrices.form
        return make(weight, None, "dense" if form == "int4" and not can_pack_int4(weight) else form)

    def _ids(self) -> Tensor | None:
        """d2t holds how far an id of the head's lies below the target's."""
        drafts = self._shape.drafts
        if "d2t" not in self._checkpoint:
            if drafts != self._shape.block.rows:
                raise LoadError(
                    f"{self._checkpoint.folder} drafts {drafts} ids and has no d2t to say which.",
                    "Fetch the head anew.",
                )
            return None
        self._read.add("d2t")
        ids = self._checkpoint.integers("d2t", drafts) + torch.arange(drafts)
        known = bool(((ids >= 0) & (ids < self._shape.block.rows)).all())
        if not known or len(set(ids.tolist())) != drafts:
            raise LoadError(
                f"{self._checkpoint.folder}: d2t names an id twice, or one that is none.",
                "Fetch the head anew.",
            )
        return ids.to(self._matrices.device)

    def _name(self, end: str) -> str:
        return PREFIX[self._shape.layout] + end

    def _matrix(
        self, names: tuple[str, ...], rows: tuple[int, ...], width: int, bias: bool = False
    ) -> Linear:
        self._read.update(f"{name}.weight" for name in names)
        if bias:
            self._read.update(f"{name}.bias" for name in names)
        return self._matrices.matrix(tuple(zip(names, rows, strict=True)), width, bias)

    def _vector(self, name: str, size: int) -> Tensor:
        self._read.add(f"{name}.weight")
        return self._matrices.vector(f"{name}.weight", size)
