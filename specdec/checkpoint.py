"""The safetensors files of one folder: which tensor lies where; whole, or refused by name.

Knows file headers; nothing of families or devices. Pickles are never opened.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from specdec.errors import LoadError

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
FETCH = "Fetch the model anew."


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


def _check_whole(file: Path) -> None:
    size = file.stat().st_size
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or length > size - 8:
            raise LoadError(f"{file} is cut short in its header ({size} bytes).", FETCH)
        try:
            header = json.loads(stream.read(length))
            ends = [t["data_offsets"][1] for n, t in header.items() if n != "__metadata__"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LoadError(f"{file} is not a safetensors file: {error}.", FETCH) from error
    want = 8 + length + max(ends, default=0)
    if size < want:
        raise LoadError(f"{file} is cut short: {size} of {want} bytes.", FETCH)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Open shards, read tensor by tensor."""

    folder: Path
    where: dict[str, Any]  # tensor name -> open file

    def __contains__(self, name: str) -> bool:
        return name in self.where

    def get(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """One tensor on the CPU in the file's dtype. Raises LoadError naming what is wrong."""
        if name not in self.where:
            raise LoadError(f"{self.folder} has no tensor {name}.", FETCH)
        try:
            tensor: Tensor = self.where[name].get_tensor(name)
        except (SafetensorError, OSError, RuntimeError) as error:
            raise LoadError(f"{self.folder}: {name} cannot be read: {error}.", FETCH) from error
        if tuple(tensor.shape) != shape:
            raise LoadError(
                f"{self.folder}: {name} is {tuple(tensor.shape)}, its config.json says {shape}.",
                FETCH,
            )
        if not tensor.is_floating_point():
            raise LoadError(
                f"{self.folder}: {name} holds {tensor.dtype} numbers.",
                "Use the unquantised version of this model.",
            )
        return tensor


@contextmanager
def open_checkpoint(folder: Path) -> Iterator[Checkpoint]:
    """Open every shard of `folder`; closed on leaving."""
    with ExitStack() as stack:
        where: dict[str, Any] = {}
        for file in weight_files(folder):
            try:
                shard = stack.enter_context(safe_open(file, framework="pt", device="cpu"))
            except (SafetensorError, OSError) as error:
                raise LoadError(f"{file} cannot be opened: {error}.", FETCH) from error
            where.update((name, shard) for name in shard.keys())  # noqa: SIM118
        yield Checkpoint(folder, where)
