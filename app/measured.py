"""What was measured in the page, kept in memory to be saved as files. Knows no pages."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

Form = Literal["json", "png", "csv"]
TYPES: Mapping[Form, str] = {
    "json": "application/json",
    "png": "image/png",
    "csv": "text/csv; charset=utf-8",
}
KEPT = 30
"""Older ones are forgotten: a figure is a few kilobytes, and who wants it saves it."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A result as files, each made when it is asked for. `name` has no ending."""

    name: str
    files: Mapping[Form, Callable[[], bytes]]


class Shelf:
    """The last results. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._sheets: OrderedDict[str, Sheet] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, sheet: Sheet) -> str:
        """The id to ask for it by."""
        id = secrets.token_hex(16)
        with self._lock:
            self._sheets[id] = sheet
            while len(self._sheets) > KEPT:
                self._sheets.popitem(last=False)
        return id

    def get(self, id: str) -> Sheet | None:
        """None: never there, or forgotten."""
        with self._lock:
            return self._sheets.get(id)
