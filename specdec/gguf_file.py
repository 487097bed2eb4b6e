"""A GGUF file: metadata and tensors, read from a memory map. Knows the format, nothing of models.

The readers at hand parse 300,000 strings slowly and several times over (30 s of a first start);
this one does it once. Format: ggml-org/ggml docs/gguf.md.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specdec.errors import LoadError

_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?"} | {
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """`shape` in torch's order; `kind` is ggml's type id."""

    shape: tuple[int, ...]
    kind: int
    offset: int  # bytes from the start of the file
    nbytes: int


class GgufFile:
    """Raises LoadError when the file is not GGUF, is cut short or holds unknown blocks.

    Without `lists` the metadata's arrays are passed over: the tokens alone are 300,000 strings.
    """

    def __init__(self, path: Path, lists: bool = True) -> None:
        self.path = path
        self._lists = lists
        self.metadata: dict[str, Any] = {}
        self.tensors: dict[str, GgufTensor] = {}
        with path.open("rb") as stream:
            if path.stat().st_size < 24:
                raise LoadError(f"{path.name} is not a GGUF file.", "Fetch the model anew.")
            self._map = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            self._parse()
        except (struct.error, IndexError, UnicodeDecodeError, ValueError, KeyError) as error:
            raise LoadError(
                f"{path.name} is truncated or not a GGUF file: {error}.", "Fetch the model anew."
            ) from error

    @property
    def parameters(self) -> int:
        """Numbers in all tensors."""
        return sum(prod(tensor.shape) for tensor in self.tensors.values())

    @property
    def largest(self) -> int:
        """Numbers in the largest tensor."""
        return max((prod(tensor.shape) for tensor in self.tensors.values()), default=0)

    def read(self, name: str) -> NDArray[np.float32]:
        """One tensor, unpacked to float32."""
        from gguf import GGMLQuantizationType, quants

        tensor = self.tensors[name]
        raw = np.frombuffer(self._map, np.uint8, tensor.nbytes, tensor.offset)
        kind = GGMLQuantizationType(tensor.kind)
        if kind == GGMLQuantizationType.F32:
            return raw.view(np.float32).reshape(tensor.shape)
        if kind == GGMLQuantizationType.F16:
            return raw.view(np.float16).astype(np.float32).reshape(tensor.shape)
        rows = raw.reshape(*tensor.shape[:-1], -1)
        unpacked: NDArray[np.float32] = quants.dequantize(rows, kind)
        return unpacked.reshape(tensor.shape)

    def raw(self, name: str, most: int | None = None) -> NDArray[np.uint8]:
        """At most `most` rows of a tensor as they lie in the file, [n, bytes]; read, not mapped.

        Mapped pages would count as memory of this process.
        """
        tensor = self.tensors[name]
        rows = prod(tensor.shape[:-1])
        count = min(rows, most or rows)
        size = tensor.nbytes // rows * count
        return np.fromfile(self.path, np.uint8, size, offset=tensor.offset).reshape(count, -1)

    def _parse(self) -> None:
        from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

        magic, version, tensors, fields = struct.unpack_from("<4sIQQ", self._map, 0)
        if magic != b"GGUF" or version not in (2, 3):
            raise ValueError("no GGUF header of version 2 or 3")
        at = 24
        for _ in range(fields):
            key, at = self._string(at)
            (kind,) = struct.unpack_from("<I", self._map, at)
            self.metadata[key], at = self._value(at + 4, kind)
        rows = []
        for _ in range(tensors):
            name, at = self._string(at)
            (dims,) = struct.unpack_from("<I", self._map, at)
            shape = struct.unpack_from(f"<{dims}Q", self._map, at + 4)
            kind, offset = struct.unpack_from("<IQ", self._map, at + 4 + 8 * dims)
            at += 16 + 8 * dims
            rows.append((name, tuple(reversed(shape)), kind, offset))
        step = self.metadata.get("general.alignment", 32)
        start = -(-at // step) * step
        for name, shape, kind, offset in rows:
            block, size = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
            tensor = GgufTensor(shape, kind, start + offset, prod(shape) // block * size)
            if tensor.offset + tensor.nbytes > len(self._map):
                raise ValueError(f"{name} reaches beyond its {len(self._map)} bytes")
            self.tensors[name] = tensor

    def _string(self, at: int) -> tuple[str, int]:
        (size,) = struct.unpack_from("<Q", self._map, at)
        at += 8
        if at + size > len(self._map):
            raise ValueError("a string reaches beyond the file")
        return self._map[at : at + size].decode("utf-8"), at + size

    def _value(self, at: int, kind: int) -> tuple[Any, int]:
        if kind in _SCALARS:
            (value,) = struct.unpack_from(_SCALARS[kind], self._map, at)
            return value, at + struct.calcsize(_SCALARS[kind])
        if kind == _STRING:
            return self._string(at)
        if kind != _ARRAY:
            raise ValueError(f"metadata of the unknown type {kind}")
        inner, count = struct.unpack_from("<IQ", self._map, at)
        at += 12
        if not self._lists:
            return None, self._beyond(at, inner, count)
        if inner in _SCALARS:
            code = f"<{count}{_SCALARS[inner][1]}"
            values = struct.unpack_from(code, self._map, at)
            return list(values), at + struct.calcsize(code)
        items = []
        for _ in range(count):
            item, at = self._value(at, inner)
            items.append(item)
        return items, at

    def _beyond(self, at: int, inner: int, count: int) -> int:
        """Where an array of `count` values ends."""
        if inner in _SCALARS:
            return at + count * struct.calcsize(_SCALARS[inner])
        for _ in range(count):
            if inner == _STRING:
                (size,) = struct.unpack_from("<Q", self._map, at)
                at += 8 + size
            else:
                _, at = self._value(at, inner)
        return at
