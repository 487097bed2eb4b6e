"""One SQLite file: opened, migrated, kept aside when damaged; transactions from any thread.

Knows nothing of what the tables mean.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.migrations import migrate
from app.words import tr
from specdec.errors import HistoryError


class Database:
    """`notice` says what the user must know about opening it ("" = nothing).

    Raises HistoryError when the file was written by a newer program or cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notice = ""
        self._lock = threading.RLock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._db = _open(path)
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise  # locked, read-only, disk full: the file itself may be fine
                self.notice = _set_aside(path, error)
                self._db = _open(path)
        except (OSError, sqlite3.Error) as error:
            raise HistoryError(
                tr("The history file {path} cannot be opened: {error}.", path=path, error=error),
                tr("Check the folder's permissions and free space, or choose another --data-dir."),
            ) from error

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All statements inside or none. Raises HistoryError when the file cannot be used."""
        try:
            with self._lock:
                self._db.execute("BEGIN IMMEDIATE")
                try:
                    yield self._db
                    self._db.execute("COMMIT")
                except BaseException:
                    if self._db.in_transaction:
                        self._db.execute("ROLLBACK")
                    raise
        except sqlite3.Error as error:
            raise HistoryError(
                tr("The history file {path} cannot be used: {error}.", path=self.path, error=error),
                tr("Check its free space and permissions; the chat on screen is not stored."),
            ) from error

    def close(self) -> None:
        """Safe to call twice; later calls of other methods raise HistoryError."""
        with self._lock:
            self._db.close()


def _open(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
    try:
        db.row_factory = sqlite3.Row
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA secure_delete = ON")  # what the user deletes is really gone
        migrate(db)
    except BaseException:
        db.close()
        raise
    return db


def _set_aside(path: Path, error: Exception) -> str:
    aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
    for suffix in ("", "-wal", "-shm"):
        source = path.with_name(path.name + suffix)
        if source.exists():
            source.rename(aside.with_name(aside.name + suffix))
    return tr(
        "The history file was damaged ({error}). It is kept as {path}; a new one was begun.",
        error=error,
        path=aside,
    )
