"""Puts a finished head into the user's own registry. Knows entries and text, no tensors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from filelock import FileLock

from specdec.registry import USER_FILE, Entry, load_registry
from specdec.training.files import read_json, write_json


def register(data_dir: Path, out: Path, target: Entry) -> str:
    """Add the head in `out`, trained for `target`; returns its id. Again changes nothing.

    Raises RegistryError where the user's file is not valid: it is left as it is.
    """
    data_dir.mkdir(parents=True, exist_ok=True)
    with FileLock(data_dir / f".{USER_FILE}.lock"):  # two heads may be done at once
        return _add(data_dir, out, target)


def _add(data_dir: Path, out: Path, target: Entry) -> str:
    taken = {entry.id: entry.folder for entry in load_registry(data_dir)}
    file = data_dir / USER_FILE
    data = read_json(file) or {"models": []}
    name = _free_id(target, taken, out.resolve())
    row = {
        "id": name,
        "name": f"Head for {target.name}",
        "family": "EAGLE-3",
        "roles": ["head"],
        "trained_for": target.id,
        "bytes": (out / "model.safetensors").stat().st_size,
        "folder": str(out.resolve()),
        "source": f"trained on this machine; see {out / 'card.json'}",
    }
    rows = [other for other in data["models"] if other["id"] != name]
    write_json(file, {**data, "models": [*rows, row]})
    return name


def _free_id(target: Entry, taken: Mapping[str, Path | None], folder: Path) -> str:
    """`<target>-head`, or the next number where that is another folder's or comes with us."""
    base = f"{Path(target.id).name if target.folder else target.id}-head"
    names = [base, *(f"{base}-{number}" for number in range(2, len(taken) + 3))]
    return next(name for name in names if name not in taken or taken[name] == folder)
