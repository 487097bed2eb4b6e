"""What each model was when first seen: revision, sizes, tokenizer. Later change is an error.

Knows one JSON file in the data folder; nothing of hubs or models.
"""

from __future__ import annotations

import json
import os
import threading
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from specdec import folder as files
from specdec.errors import SourceError

_LOCK = threading.Lock()  # one writer at a time in this process


@dataclass(frozen=True, slots=True)
class Pin:
    """`origin` is hub or packaged; `tokenizer` a fingerprint (`folder.fingerprint`).

    `hashes` are sha256 sums of the files, taken when they were fetched; empty: never taken.
    """

    origin: str
    label: str
    revision: str | None = None
    tokenizer: str = ""
    sizes: dict[str, int] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)


class Pins:
    """`pins.json`. Read at each use: another process of this program may have written it."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def get(self, model: str) -> Pin | None:
        """The pin of this model id, if it was ever seen."""
        row = self._read().get(model)
        return Pin(**row) if isinstance(row, dict) else None

    def settle(self, model: str, folder: Path, pin: Pin) -> Pin:
        """Pin a folder at first contact, or check a hub's against its pin (D21).

        Raises SourceError naming what changed.
        """
        seen = replace(pin, tokenizer=files.fingerprint(folder), sizes=files.sizes(folder))
        known = self.get(model)
        if known is None or pin.origin != "hub":  # other origins are pinned by the registry itself
            self._write(model, seen)
            return seen
        self.compare(model, known, seen)
        if pin.hashes and known.origin == pin.origin:
            known = replace(known, hashes=pin.hashes)
            self._write(model, known)
        return known

    def check(self, model: str, folder: Path) -> None:
        """Raises SourceError when the folder is not what was pinned; does nothing without a pin."""
        known = self.get(model)
        if known is not None:
            seen = Pin(known.origin, known.label, known.revision, files.fingerprint(folder))
            self.compare(model, known, seen)

    def compare(self, model: str, known: Pin, seen: Pin) -> None:
        """Revision, tokenizer and sizes of one origin must stay; another origin may differ."""
        changed = None
        names = known.sizes.keys() & seen.sizes.keys()
        other = sorted(name for name in names if known.sizes[name] != seen.sizes[name])
        if known.origin != seen.origin:
            return
        if known.revision != seen.revision:
            changed = f"its revision ({known.revision} then, {seen.revision} now)"
        elif known.tokenizer != seen.tokenizer:
            changed = "its tokenizer"
        elif other:
            changed = f"the size of {other[0]}"
        if changed:
            raise SourceError(
                f"{model} is not what it was when first fetched: {changed} changed.",
                f'If that is wanted, remove "{model}" from {self._file} and its model folder.',
            )

    def take_sums(self, model: str, hashes: dict[str, str]) -> None:
        """Remember the files' sums of a model that is pinned without them."""
        known = self.get(model)
        if known is not None and not known.hashes:
            self._write(model, replace(known, hashes=hashes))

    def forget(self, model: str) -> None:
        """Drop the pin; the next contact is the first again."""
        with _LOCK:
            rows = self._read()
            if rows.pop(model, None) is not None:
                self._save(rows)

    def _read(self) -> dict[str, object]:
        try:
            rows = json.loads(self._file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise SourceError(
                f"{self._file} cannot be read: {error}.", "Correct or remove it."
            ) from error
        if not isinstance(rows, dict):
            raise SourceError(f"{self._file} does not hold a JSON object.", "Remove it.")
        return rows

    def _write(self, model: str, pin: Pin) -> None:
        with _LOCK:
            self._save({**self._read(), model: asdict(pin)})

    def _save(self, rows: dict[str, object]) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._file.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        temporary.replace(self._file)
