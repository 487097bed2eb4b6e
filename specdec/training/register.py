"""Puts a finished head into the user's own registry. Knows entries and text, no tensors."""

from __future__ import annotations

from pathlib import Path

from specdec.registry import USER_FILE, Entry, load_registry
from specdec.training.files import read_json, write_json


def register(data_dir: Path, out: Path, target: Entry) -> str:
    """Add the head in `out`, trained for `target`; returns its id. Again changes nothing.

    Raises RegistryError where the user's file is not valid: it is left as it is.
    """
    load_registry(data_dir)
    file = data_dir / USER_FILE
    data = read_json(file) or {"models": []}
    folder = str(out.resolve())
    known = {row["id"]: row for row in data["models"]}
    name = _free_id(target, known, folder)
    row = {
        "id": name,
        "name": f"Head for {target.name}",
        "family": "EAGLE-3",
        "roles": ["head"],
        "trained_for": target.id,
        "bytes": (out / "model.safetensors").stat().st_size,
        "folder": folder,
        "source": f"trained on this machine; see {out / 'card.json'}",
    }
    rows = [known[other] for other in known if other != name]
    write_json(file, {**data, "models": [*rows, row]})
    return name


def _free_id(target: Entry, known: dict[str, dict[str, object]], folder: str) -> str:
    """`<target>-head`, or the next number where that is another folder's."""
    base = f"{Path(target.id).name if target.folder else target.id}-head"
    names = [base, *(f"{base}-{number}" for number in range(2, len(known) + 3))]
    return next(n for n in names if n not in known or known[n].get("folder") == folder)
