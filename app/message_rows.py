"""The table of messages: a tree a conversation, inside somebody's transaction. Knows SQL only."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.branches import lineage, path, versions
from app.records import MessageRole, MessageState, StoredMessage, message_of
from app.words import tr
from specdec.errors import HistoryError


@dataclass(frozen=True, slots=True)
class Node:
    """As much of a message as says where it stands."""

    id: int
    parent: int
    shown: bool


def tree(db: sqlite3.Connection, conversation: str) -> list[StoredMessage]:
    """Every message, the oldest first."""
    found = "SELECT * FROM messages WHERE conversation = ? ORDER BY id"
    return [message_of(row) for row in db.execute(found, (conversation,))]


def shown(db: sqlite3.Connection, conversation: str) -> list[StoredMessage]:
    """The branch that is shown, oldest first; of the others not even the text is read."""
    chosen = json.dumps([node.id for node in path(_nodes(db, conversation))])
    found = "SELECT * FROM messages WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"
    return [message_of(row) for row in db.execute(found, (chosen,))]


def beside(db: sqlite3.Connection, conversation: str) -> Mapping[int, tuple[int, ...]]:
    """As `branches.versions`."""
    return versions(_nodes(db, conversation))


def last(db: sqlite3.Connection, conversation: str) -> int:
    """The last message shown, 0 where there is none."""
    return next((node.id for node in reversed(path(_nodes(db, conversation)))), 0)


def show(db: sqlite3.Connection, conversation: str, message: int) -> bool:
    """Choose the branch of this message, from its beginning on; False when it is gone."""
    line = lineage(_nodes(db, conversation), message)
    for node in line:
        db.execute(
            "UPDATE messages SET shown = (id = ?) WHERE conversation = ? AND parent = ?",
            (node.id, conversation, node.parent),
        )
    return bool(line)


def insert(
    db: sqlite3.Connection,
    conversation: str,
    role: MessageRole,
    content: str,
    *,
    parent: int,
    ids: Sequence[int] = (),
    state: MessageState = "complete",
    metrics: Mapping[str, Any] | None = None,
    request: Mapping[str, Any] | None = None,
) -> StoredMessage:
    """A message that is shown in place of the others after `parent`.

    Raises HistoryError when the conversation or the parent is gone.
    """
    if not touch(db, conversation):
        raise HistoryError(tr("This conversation was deleted."), tr("Start a new one."))
    known = "SELECT 1 FROM messages WHERE id = ? AND conversation = ?"
    if parent and db.execute(known, (parent, conversation)).fetchone() is None:
        raise HistoryError(tr("The message before it is gone."), tr("Reload the page."))
    place = (conversation, parent)
    db.execute("UPDATE messages SET shown = 0 WHERE conversation = ? AND parent = ?", place)
    row = (role, content, dump(list(ids)), state, dump(metrics or {}), dump(request or {}))
    rows = db.execute(
        "INSERT INTO messages"
        " (conversation, parent, role, content, ids, state, metrics, request, created)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING *",
        (*place, *row, time.time()),
    ).fetchall()
    return message_of(rows[0])


def plant(db: sqlite3.Connection, conversation: str, rows: Sequence[StoredMessage]) -> None:
    """Insert a whole tree, parents before children; every message gets an id of its own."""
    made = {0: 0}
    for row in rows:
        made[row.id] = insert(
            db,
            conversation,
            row.role,
            row.content,
            parent=made[row.parent],
            ids=row.ids,
            state=row.state,
            metrics=row.metrics,
            request=row.request,
        ).id
    for row in rows:
        values = (int(row.shown), made[row.id])
        db.execute("UPDATE messages SET shown = ? WHERE id = ?", values)


def touch(db: sqlite3.Connection, conversation: str) -> bool:
    """Note that it was used; False when it is gone."""
    used = "UPDATE conversations SET updated = ? WHERE id = ? AND deleted IS NULL"
    return db.execute(used, (time.time(), conversation)).rowcount > 0


def dump(value: Mapping[str, Any] | list[int]) -> str:
    return json.dumps(value, ensure_ascii=False)


def _nodes(db: sqlite3.Connection, conversation: str) -> list[Node]:
    found = "SELECT id, parent, shown FROM messages WHERE conversation = ? ORDER BY id"
    return [Node(row[0], row[1], bool(row[2])) for row in db.execute(found, (conversation,))]
