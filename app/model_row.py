"""One model as the list shows it. Knows nothing of files or downloads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.fetch_queue import Task
from app.words import tr
from specdec.contract import Choice
from specdec.errors import SettingError

Where = Literal["", "ours", "cache", "local", "shipped"]
"""Where the files lie: nowhere, in our data folder, in the hub's own cache, in a folder of the
user's, or beside the program."""


@dataclass(frozen=True, slots=True)
class Row:
    """One model. `disk` bytes are here, `left` of them from an unfinished download.

    `fetch` is what a download brings, None where nobody knows yet; `exact` where it was read.
    """

    id: str
    name: str
    roles: tuple[str, ...]
    where: Where
    disk: int
    left: int
    fetch: int | None
    exact: bool
    licence: str | None
    page: str
    gated: bool
    fits: Choice
    loaded: bool
    added: bool
    damage: str
    task: Task | None
    words: str

    @property
    def here(self) -> bool:
        """Whole and ready to load."""
        return bool(self.where) and not self.damage


def narrowed(rows: list[Row], query: str) -> list[Row]:
    """Those that hold every word of a search."""
    words = query.lower().split()
    return [row for row in rows if all(word in row.words for word in words)]


def known(model: str, rows: list[Row]) -> Row:
    """The row of a model. Raises SettingError."""
    for row in rows:
        if row.id == model:
            return row
    raise SettingError(tr("There is no model {model}.", model=repr(model)), tr("Reload the page."))
