"""Files that are there whole or not at all. Knows bytes, JSON and tensors; not what they mean."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor

from specdec.errors import LoadError


def write_bytes(path: Path, data: bytes) -> None:
    """Under another name first, then renamed: a kill at any point leaves the old file or the new.

    Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def write_json(path: Path, value: Any) -> None:
    """As `write_bytes`, for people to read too."""
    write_bytes(path, (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """What `write_json` wrote, or None where nothing was written yet. Raises LoadError."""
    try:
        return json.loads(path.read_text("utf-8")) if path.exists() else None
    except (OSError, ValueError) as error:
        raise LoadError(
            f"{path} cannot be read: {error}.", "Remove it, or begin anew in another --out."
        ) from error


def write_tensors(path: Path, tensors: dict[str, Tensor], about: dict[str, str]) -> None:
    """A safetensors file; `about` is its metadata."""
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_bytes(path, save(whole, {"format": "pt", **about}))


def numbered(folder: Path, suffix: str) -> dict[int, Path]:
    """Files named by a number alone, in its order."""
    found = {int(path.stem): path for path in folder.glob(f"*{suffix}") if path.stem.isdecimal()}
    return dict(sorted(found.items()))


def next_file(folder: Path, suffix: str) -> Path:
    """The one after the last, also where some before it are gone."""
    return folder / f"{max(numbered(folder, suffix), default=-1) + 1:05d}{suffix}"
