"""The user's own rows of the registry: add one, take one off. Knows `models.json`, no weights."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from specdec import folder as files
from specdec.errors import RegistryError, SourceError
from specdec.registry import USER_FILE, load_registry, local_entry


def row_of_path(text: str) -> dict[str, Any]:
    """A row for a folder of safetensors or a GGUF file.

    Raises SourceError, RegistryError or LoadError: one line that says what is wrong with it.
    """
    path = Path(text.strip().strip('"')).expanduser()
    if not text.strip() or not path.is_absolute():
        raise SourceError("That is no whole path.", "Begin it with / (or a drive) or ~.")
    if path.is_dir():
        entry = local_entry(files.check(path))
        row = {"id": slug(path.name), "name": path.name, "family": entry.family}
        return {**row, "roles": list(entry.roles), "folder": str(path.resolve())}
    if not path.is_file():
        raise SourceError(f"There is no {path}.", "Name a folder with config.json, or a .gguf.")
    with path.open("rb") as stream:
        if stream.read(4) != b"GGUF":
            raise SourceError(
                f"{path.name} is no GGUF file.",
                "Name a .gguf, or a folder with config.json, safetensors and tokenizer.json.",
            )
    row = {"id": slug(path.stem), "name": path.stem, "family": "GGUF"}
    return {**row, "roles": ["target", "draft"], "gguf": str(path.resolve())}


def add_row(data_dir: Path, row: dict[str, Any]) -> str:
    """Its id, made unlike every other. Raises RegistryError where the file cannot be used."""
    known = {entry.id for entry in load_registry(data_dir)}
    name, number = row["id"], 2
    while row["id"] in known:
        row = {**row, "id": f"{name}-{number}"}
        number += 1
    _write(data_dir / USER_FILE, [*_rows(data_dir / USER_FILE), row])
    load_registry(data_dir)
    return str(row["id"])


def take_off(data_dir: Path, model: str) -> None:
    """Forget the user's row of a model; no file of it is touched."""
    file = data_dir / USER_FILE
    _write(file, [row for row in _rows(file) if row.get("id") != model])


def slug(name: str) -> str:
    """A name as an id."""
    return re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip(".-") or "model"


def _rows(file: Path) -> list[dict[str, Any]]:
    if not file.exists():
        return []
    rows: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["models"]
    return rows


def _write(file: Path, rows: list[dict[str, Any]]) -> None:
    temporary = file.with_suffix(f".{os.getpid()}.tmp")
    try:
        temporary.write_text(json.dumps({"models": rows}, indent=1) + "\n", encoding="utf-8")
        temporary.replace(file)
    except OSError as error:
        raise RegistryError(f"{file} cannot be written: {error}.", "Free some space.") from error
