"""The safetensors files of one folder: which tensor lies where; whole, or refused by name.

Knows file headers; nothing of families or devices. Pickles are never opened.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specdec.errors import LoadError

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
FETCH = "Fetch the model anew."
DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


def read_config(folder: Path) -> dict[str, Any]:
    """config.json as a dict. Raises LoadError when it is missing or not JSON."""
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise LoadError(f"{path} is missing.", "Name a folder that holds a model.") from None
    except (OSError, ValueError) as error:
        raise LoadError(f"{path} cannot be read: {error}.", FETCH) from error
    if not isinstance(config, dict):
        raise LoadError(f"{path} does not hold a JSON object.", FETCH)
    return config


def weight_files(folder: Path) -> list[Path]:
    """The shards, each checked to be as long as its header says (D05).

    Raises LoadError: missing or truncated shard, only pickled weights (D07), no weights at all.
    """
    files = _shards(folder)
    for file in files:
        _check_whole(file)
    return files


def _shards(folder: Path) -> list[Path]:
    if (folder / INDEX).exists():
        try:
            names = sorted(
                set(json.loads((folder / INDEX).read_text("utf-8"))["weight_map"].values())
            )
        except (OSError, ValueError, KeyError, AttributeError) as error:
            raise LoadError(f"{folder / INDEX} cannot be read: {error}.", FETCH) from error
        missing = [name for name in names if not (folder / name).is_file()]
        if missing:
            raise LoadError(f"{folder} lacks {missing[0]}.", FETCH)
        return [folder / name for name in names]
    if (folder / SINGLE).is_file():
        return [folder / SINGLE]
    pickled = [path.name for kind in PICKLES for path in sorted(folder.glob(kind))]
    if pickled:
        raise LoadError(
            f"{folder} has only pickled weights ({pickled[0]}), which can run code when opened.",
            "Use a safetensors version of this model.",
        )
    raise LoadError(f"{folder} holds no safetensors file.", FETCH)


def _check_whole(file: Path) -> dict[str, Stored]:
    """Where each tensor lies. Raises LoadError unless the file is as long as its header says."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or length > size - 8:
            raise LoadError(f"{file} is cut short in its header ({size} bytes).", FETCH)
        try:
            header = json.loads(stream.read(length))
            header.pop("__metadata__", None)
            start = 8 + length
            where = {name: _stored(file, start, row) for name, row in header.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LoadError(f"{file} is not a safetensors file: {error}.", FETCH) from error
    want = max((tensor.end for tensor in where.values()), default=start)
    if size < want:
        raise LoadError(f"{file} is cut short: {size} of {want} bytes.", FETCH)
    return where


@dataclass(frozen=True, slots=True)
class Stored:
    """Bytes `start` to `end` of `file`."""

    file: Path
    start: int
    end: int
    dtype: str  # as the header writes it
    shape: tuple[int, ...]


def _stored(file: Path, start: int, row: dict[str, Any]) -> Stored:
    low, high = row["data_offsets"]
    shape = tuple(int(size) for size in row["shape"])
    if low > high or (row["dtype"] in DTYPES and high - low != prod(shape) * _size(row["dtype"])):
        raise ValueError(f"a tensor of shape {shape} does not take {high - low} bytes")
    return Stored(file, start + low, start + high, row["dtype"], shape)


def _size(dtype: str) -> int:
    return DTYPES[dtype].itemsize


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Tensors of all shards, read one by one.

    They are read and not mapped: mapped pages count as memory of this process as long as the file
    is open, which is the weights once more (docs/log.md).
    """

    folder: Path
    where: dict[str, Stored]

    def __contains__(self, name: str) -> bool:
        return name in self.where

    def shape(self, name: str) -> tuple[int, ...]:
        """Raises LoadError when there is no such tensor."""
        return self._find(name).shape

    def get(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """One tensor on the CPU in the file's dtype. Raises LoadError naming what is wrong."""
        stored = self._find(name)
        if stored.shape != shape:
            raise LoadError(
                f"{self.folder}: {name} is {stored.shape}, its config.json says {shape}.", FETCH
            )
        return self._read(name, stored)

    def integers(self, name: str, size: int) -> Tensor:
        """A table of `size` whole numbers, int64. Raises LoadError naming what is wrong."""
        stored = self._find(name)
        if stored.shape != (size,) or stored.dtype not in ("I64", "I32"):
            raise LoadError(
                f"{self.folder}: {name} is not a table of {size} whole numbers"
                f" ({stored.dtype} {stored.shape}).",
                FETCH,
            )
        return self._bytes(name, stored, DTYPES[stored.dtype]).to(torch.int64)

    def first(self, name: str, rows: int) -> Tensor:
        """At most the first `rows` rows of a matrix."""
        stored = self._find(name)
        rows = min(rows, stored.shape[0])
        size = (stored.end - stored.start) // stored.shape[0] * rows
        shape = (rows, *stored.shape[1:])
        return self._read(name, replace(stored, end=stored.start + size, shape=shape))

    def _find(self, name: str) -> Stored:
        if name not in self.where:
            raise LoadError(f"{self.folder} has no tensor {name}.", FETCH)
        return self.where[name]

    def _read(self, name: str, stored: Stored) -> Tensor:
        dtype = DTYPES.get(stored.dtype)
        if dtype is None or not dtype.is_floating_point:
            raise LoadError(
                f"{self.folder}: {name} holds {dtype or stored.dtype} numbers.",
                "Use the unquantised version of this model.",
            )
        return self._bytes(name, stored, dtype)

    def _bytes(self, name: str, stored: Stored, dtype: torch.dtype) -> Tensor:
        tensor = torch.empty(stored.shape, dtype=dtype)
        data: Any = tensor.view(-1).view(torch.uint8).numpy()
        into = memoryview(data)
        try:
            with stored.file.open("rb", buffering=0) as stream:
                stream.seek(stored.start)
                done = 0
                while done < len(into) and (count := stream.readinto(into[done:])):
                    done += count
        except OSError as error:
            raise LoadError(f"{self.folder}: {name} cannot be read: {error}.", FETCH) from error
        if done < len(into):
            raise LoadError(f"{stored.file} is cut short in {name}.", FETCH)
        return tensor


@contextmanager
def open_checkpoint(folder: Path) -> Iterator[Checkpoint]:
    """The tensors of every shard of `folder`. Raises LoadError as `weight_files` does."""
    where: dict[str, Stored] = {}
    for file in _shards(folder):
        where.update(_check_whole(file))
    yield Checkpoint(folder, where)
