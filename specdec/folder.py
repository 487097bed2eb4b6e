"""A folder of model files: whole or not, and what its tokenizer is. Reads headers, never weights.

Knows files on disk; nothing of where they came from, and no torch.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from specdec.errors import LoadError
from specdec.heads.shape import is_head

INDEX = "model.safetensors.index.json"
PACKED = "packed.gguf"
"""The file a folder was made from, kept under this name for `--weights packed`."""
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


def problem(folder: Path) -> str | None:
    """Why the folder cannot be loaded, naming the file; None when it is whole."""
    if not (folder / "config.json").is_file():
        return f"{folder / 'config.json'} is missing"
    config, text = _json(folder / "config.json"), folder / "tokenizer.json"
    if not isinstance(config, dict):
        return f"{folder / 'config.json'} is not readable JSON"
    if not is_head(config):  # a head's ids are its target's
        if not text.is_file():
            return f"{text} is missing"
        if not _closed(text):
            return f"{text} is cut short"
    shards = weight_files(folder)
    if isinstance(shards, str):
        return shards
    return next((why for why in map(_cut, shards) if why), None)


def weight_files(folder: Path) -> list[Path] | str:
    """The safetensors files that make the model, or what is missing."""
    if (folder / INDEX).is_file():
        index = _json(folder / INDEX)
        places = index.get("weight_map") if isinstance(index, dict) else None
        if not isinstance(places, dict) or not places:
            return f"{folder / INDEX} is not readable"
        files = [folder / name for name in sorted(set(places.values()))]
        missing = next((file for file in files if not file.is_file()), None)
        return files if missing is None else f"{missing} is missing"
    files = sorted(folder.glob("*.safetensors"))
    if files:
        return files
    pickles = [file.name for file in folder.iterdir() if file.suffix in _PICKLES]
    if pickles:
        return f"{folder} holds only pickled weights ({pickles[0]}), which can run code when opened"
    return f"{folder} holds no safetensors file"


def _cut(file: Path) -> str | None:
    """Compare a safetensors file's length with what its header says."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or length > size - 8:
            return f"{file} is cut short in its header ({size} bytes)"
        try:
            header = json.loads(stream.read(length))
            ends = [row["data_offsets"][1] for key, row in header.items() if key != "__metadata__"]
        except (ValueError, KeyError, TypeError, AttributeError):
            return f"{file} is not a safetensors file"
    want = 8 + length + max(ends, default=0)
    return None if size >= want else f"{file} is cut short: {size} of {want} bytes"


def _closed(file: Path) -> bool:
    """Whether a JSON file ends as one; parsing 10 MB each time a list is shown is too slow."""
    with file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - 64))
        return stream.read().rstrip().endswith(b"}")


def check(folder: Path) -> Path:
    """The folder itself. Raises LoadError naming the file that is missing, cut or refused."""
    if not folder.is_dir():
        raise LoadError(f"There is no folder {folder}.", "Name one with config.json in it.")
    if (why := problem(folder)) is not None:
        raise LoadError(f"{why}.", "Fetch or copy the model anew.")
    return folder


def sizes(folder: Path) -> dict[str, int]:
    """Bytes of every file, for the pins."""
    files = (file for file in sorted(folder.iterdir()) if file.is_file())
    return {file.name: file.stat().st_size for file in files}


def fingerprint(folder: Path) -> str:
    """sha256 of what decides the ids of a prompt: tokenizer.json and its settings."""
    digest = hashlib.sha256()
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        if (folder / name).is_file():
            digest.update(name.encode() + b"\0" + (folder / name).read_bytes())
    return digest.hexdigest()


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def sha256(file: Path) -> str:
    """Digest of a file's bytes, in hexadecimal."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def hashes(folder: Path) -> dict[str, str]:
    """sha256 of every file: reads all of them."""
    return {name: sha256(folder / name) for name in sizes(folder)}


def total(folder: Path) -> int:
    """Bytes of everything below a folder; 0 where there is none. Files may go meanwhile."""
    found = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                found += Path(place, name).stat().st_size
    return found
