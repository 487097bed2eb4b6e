"""Conversations that were deleted or cleared and can still come back. Knows SQL only.

A cleared one keeps its place: its messages move to a hidden conversation of their own.
"""

from __future__ import annotations

import sqlite3
import time
import uuid


def hide(db: sqlite3.Connection, conversation: str) -> bool:
    """Take it out of every list; False when it is gone."""
    gone = "UPDATE conversations SET deleted = ? WHERE id = ? AND deleted IS NULL"
    return db.execute(gone, (time.time(), conversation)).rowcount > 0


def hide_messages(db: sqlite3.Connection, conversation: str) -> str:
    """Take every branch out of it; the id they lie under meanwhile."""
    name = uuid.uuid4().hex
    db.execute(
        "INSERT INTO conversations (id, created, updated, deleted, cleared_from)"
        " SELECT ?, created, updated, ?, id FROM conversations WHERE id = ?",
        (name, time.time(), conversation),
    )
    _move(db, conversation, name)
    return name


def bring_back(db: sqlite3.Connection, hidden: str) -> bool:
    """As it was; cleared messages stand beside what was said since. False when it is gone."""
    found = "SELECT cleared_from FROM conversations WHERE id = ? AND deleted IS NOT NULL"
    row = db.execute(found, (hidden,)).fetchone()
    if row is None:
        return False
    if not row["cleared_from"]:
        db.execute("UPDATE conversations SET deleted = NULL WHERE id = ?", (hidden,))
        return True
    home = row["cleared_from"]
    db.execute("UPDATE messages SET shown = 0 WHERE conversation = ? AND parent = 0", (home,))
    _move(db, hidden, home)
    db.execute("DELETE FROM conversations WHERE id = ?", (hidden,))
    return True


def purge(db: sqlite3.Connection) -> None:
    """Nothing hidden comes back any more: delete it, overwriting its bytes."""
    db.execute("DELETE FROM conversations WHERE deleted IS NOT NULL")


def _move(db: sqlite3.Connection, one: str, other: str) -> None:
    db.execute("UPDATE messages SET conversation = ? WHERE conversation = ?", (other, one))
