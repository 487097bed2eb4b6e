"""The GGUF file kept beside a model's folder: which of its tensors can stay packed.

And are they the folder's? Knows names and kinds of blocks; nothing of layers or sources.
"""

from __future__ import annotations

from math import prod
from pathlib import Path

import torch
from torch import Tensor

from specdec import blocks
from specdec.checkpoint import Checkpoint, open_checkpoint
from specdec.errors import LoadError
from specdec.gguf_families import straighten, unpack
from specdec.gguf_file import GgufFile
from specdec.linear import GROUP
from specdec.packed import INT4_BYTES, Blocks, PackedRows
from specdec.tensor_names import EMBED, HEAD

_ROWS = 4
"""Rows of each tensor that `check` compares: another quantisation or model differs in all."""


class PackedFile:
    """Tensors by transformers' names. Raises LoadError for a family whose names are not known."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = GgufFile(path, lists=False)
        known = unpack(self._file)
        if known is None:
            family = self._file.metadata.get("general.architecture")
            raise LoadError(
                f"Packed blocks are read from llama, qwen2 and qwen3 files; {path.name} is of"
                f" {family}.",
                "Use --weights bf16.",
            )
        self._origins = known.origins

    @property
    def names(self) -> tuple[str, ...]:
        """The tensors that can stay packed."""
        return tuple(name for name in self._origins if name in self)

    def __contains__(self, name: str) -> bool:
        if name not in self._origins:
            return False
        tensor = self._file.tensors[self._origins[name][0]]
        return tensor.kind in blocks.NAMES and len(tensor.shape) == 2

    def blocks(self, name: str, shape: tuple[int, ...], most: int | None = None) -> Blocks:
        """At most `most` rows of a tensor, as blocks. Raises LoadError for another shape."""
        origin, heads = self._origins[name]
        tensor = self._file.tensors[origin]
        if tensor.shape != shape:
            raise LoadError(
                f"{self.path}: {origin} is {tensor.shape}, the model's is {shape}.",
                "Remove that file, or use --weights bf16.",
            )
        if heads:
            raw = straighten(self._file.raw(origin), heads)[:most]
        else:
            raw = self._file.raw(origin, most)
        return Blocks(torch.from_numpy(raw), tensor.kind)

    def saved(self, block: int = 1) -> int:
        """Bytes less than with bf16 matrices whose rows are padded to `block` numbers."""
        total = 0.0
        for name in self.names:
            rows, width = self._file.tensors[self._origins[name][0]].shape
            if name != EMBED or HEAD not in self._origins:  # a matrix, not looked up only
                total += rows * (-(-width // block) * block * 2 - width * INT4_BYTES)
        if EMBED in self._origins:  # the table itself stays in its blocks, of whatever kind
            table = self._file.tensors[self._origins[EMBED][0]]
            total += 2 * prod(table.shape) - table.nbytes
        return int(total)

    def rows(self, name: str, shape: tuple[int, int]) -> PackedRows | None:
        """An embedding of any kind, to look rows up in; None when it is not in the file."""
        if name not in self._origins:
            return None
        return PackedRows(self.blocks(name, shape), dequantise)


def dequantise(raw: Tensor, kind: int) -> Tensor:
    """Rows of any kind, uint8 [n, bytes] -> float32 [n, K]."""
    from gguf import GGMLQuantizationType, quants

    return torch.from_numpy(quants.dequantize(raw.numpy(), GGMLQuantizationType(kind)))


def check(path: Path, folder: Path) -> None:
    """Raises LoadError unless the blocks of `path` are what the tensors of `folder` were made of.

    A hub's own weights are not: packing those would be another model.
    """
    packed = PackedFile(path)
    if not packed.names:
        raise LoadError(
            f"{path.name} holds no Q4_0, Q4_1 or Q4_K block.",
            "Nothing of it can stay packed: use --weights bf16.",
        )
    with open_checkpoint(folder) as checkpoint:
        for name in packed.names:
            _compare(packed, checkpoint, name)


def _compare(packed: PackedFile, checkpoint: Checkpoint, name: str) -> None:
    weight = checkpoint.first(name, _ROWS).float()
    part = packed.blocks(name, checkpoint.shape(name), _ROWS)
    q, scale_zero = blocks.unpack(part.raw, part.kind)
    groups = q.float().view(len(q), -1, GROUP) - 8
    want = (groups * scale_zero[..., :1] + scale_zero[..., 1:]).flatten(1)
    slack = 1e-5 * float(weight.abs().amax())  # fp32 sums in another order
    if not torch.allclose(weight, want, rtol=2.0**-8, atol=slack):
        raise LoadError(
            f"{packed.path.name} is not what {checkpoint.folder.name} was made from:"
            f" {name} differs.",
            "Use --weights bf16.",
        )
