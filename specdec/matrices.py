"""Named tensors of a checkpoint -> matrices and vectors on the device, packed or not.

Knows tensors and their names; nothing of layers, families or where files came from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from specdec.errors import LoadError
from specdec.linear import Form, Linear, can_pack_int4, make
from specdec.packed import Packed, PackedRows, Stacked
from specdec.packed_file import PackedFile

Part = tuple[str, int]
"""A matrix's name without ".weight", and its rows."""


class Tensors(Protocol):
    """Named tensors: `checkpoint.Checkpoint`, or random ones (`bench`)."""

    @property
    def folder(self) -> Path:
        """Where they lie, for messages."""

    def __contains__(self, name: str) -> bool:
        """Whether there is a tensor of this name."""

    def get(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """One tensor. Raises LoadError naming what is wrong."""


@dataclass(frozen=True, slots=True)
class Matrices:
    """Reads one matrix at a time, so that few are held twice.

    With `packed`, what its file holds in 4-bit blocks stays so, and the rest takes `form`.
    """

    checkpoint: Tensors
    device: torch.device
    dtype: torch.dtype
    form: Form
    packed: PackedFile | None = None

    def matrix(self, parts: Sequence[Part], width: int, bias: bool) -> Linear:
        """The named matrices one below the other, as one.

        Where some stay packed and others do not, their results are joined. Raises LoadError.
        """
        stacked = tuple(
            self._blocks(list(group), width, bias)
            if packed
            else self._dense(list(group), width, bias)
            for packed, group in groupby(parts, lambda part: self._stays_packed(part[0]))
        )
        return stacked[0] if len(stacked) == 1 else Stacked(stacked)

    def ends(
        self, embed: str, head: str, size: tuple[int, int], tied: bool
    ) -> tuple[Tensor | PackedRows, Linear]:
        """The embedding and the output matrix, which may be one; full names. Raises LoadError.

        On a CPU the embedding keeps the file's dtype: widening a row at look-up is exact.
        """
        own = head in self.checkpoint and not tied
        if not own and not tied:
            raise LoadError(
                f"{self.checkpoint.folder} has no tensor {head}.", "Fetch the model anew."
            )
        source, rows = (head if own else embed).removesuffix(".weight"), size[0]
        if self.packed is not None and (table := self.packed.rows(embed, size)) is not None:
            return table, self.matrix(((source, rows),), size[1], bias=False)
        if own:
            matrix = self._dense(((source, rows),), size[1], bias=False)
            return self._table(self.checkpoint.get(embed, size)), matrix
        weight = self.checkpoint.get(embed, size)
        matrix = self._make(weight.to(self.device, self.dtype), None)
        shared = getattr(matrix, "weight", None)
        return (self._table(weight) if shared is None else shared), matrix

    def dense_rows(self, parts: Sequence[Part]) -> int:
        """Rows of these that do not stay packed."""
        return sum(rows for name, rows in parts if not self._stays_packed(name))

    def vector(self, name: str, size: int) -> Tensor:
        """One vector, by its full name. Raises LoadError."""
        return self.checkpoint.get(name, (size,)).to(self.device, self.dtype)

    def _stays_packed(self, name: str) -> bool:
        return self.packed is not None and f"{name}.weight" in self.packed

    def _blocks(self, parts: Sequence[Part], width: int, bias: bool) -> Linear:
        assert self.packed is not None
        raw = [self.packed.blocks(f"{name}.weight", (rows, width)) for name, rows in parts]
        return Packed.pack(raw, self._bias(parts) if bias else None)

    def _dense(self, parts: Sequence[Part], width: int, bias: bool) -> Linear:
        pieces = [self.checkpoint.get(f"{name}.weight", (rows, width)) for name, rows in parts]
        weight = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
        del pieces
        return self._make(weight.to(self.device, self.dtype), self._bias(parts) if bias else None)

    def _bias(self, parts: Sequence[Part]) -> Tensor:
        return torch.cat([self.vector(f"{name}.bias", rows) for name, rows in parts])

    def _table(self, weight: Tensor) -> Tensor:
        exact = self.device.type == "cpu" and weight.dtype.itemsize <= self.dtype.itemsize
        return weight if exact else weight.to(self.device, self.dtype)

    def _make(self, weight: Tensor, bias: Tensor | None) -> Linear:
        form = self.form
        if form == "int4" and not can_pack_int4(weight):
            form = "dense"
        return make(weight, bias, form)
