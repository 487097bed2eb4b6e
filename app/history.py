"""Conversations and messages on disk (SQLite). Knows nothing of models, pages or streaming.

A reply is a row before its first token shows and grows while it is made: a crash leaves it readable
with state `partial`. Only the owner's chats are ever written here.
"""

from __future__ import annotations

import json
import sqlite3
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app import search
from app.database import Database
from app.records import Conversation as Conversation
from app.records import Found, conversation_of, message_of
from app.records import MessageRole as MessageRole
from app.records import MessageState as MessageState
from app.records import StoredMessage as StoredMessage
from app.records import title_of as title_of
from specdec.errors import HistoryError

ORDER = "ORDER BY pinned DESC, updated DESC, id"
HOLDS = (
    "(holds(c.title, ?) OR EXISTS (SELECT 1 FROM messages m"
    " WHERE m.conversation = c.id AND holds(m.content, ?)))"
)


class History:
    """One database file; every method may be called from any thread.

    `notice` says what the user must know about opening it ("" = nothing). Raises HistoryError when
    the file was written by a newer program or cannot be opened, and from any method when the file
    cannot be used (disk full, closed).
    """

    def __init__(self, path: Path) -> None:
        self._database = Database(path)

    @property
    def notice(self) -> str:
        return self._database.notice

    # --- conversations --------------------------------------------------------------------------

    def conversations(self) -> list[Conversation]:
        """All conversations: pinned ones, then the others, the latest first."""
        with self._database.transaction() as db:
            rows = db.execute(f"SELECT * FROM conversations {ORDER}").fetchall()
        return [conversation_of(row) for row in rows]

    def search(self, query: str) -> list[Found]:
        """Those in whose title and messages every word of `query` is, in the same order.

        A scan: no index has to be kept, and what is deleted lies in none.
        """
        wanted = search.words(query)
        where = " AND ".join([HOLDS] * len(wanted)) or "TRUE"
        twice = [word for word in wanted for _ in (1, 2)]
        with self._database.transaction() as db:
            db.create_function("holds", 2, search.holds, deterministic=True)
            rows = db.execute(f"SELECT * FROM conversations c WHERE {where} {ORDER}", twice)
            return [self._found(db, conversation_of(row), wanted) for row in rows.fetchall()]

    def conversation(self, conversation: str) -> Conversation | None:
        """One conversation, None when it is gone."""
        with self._database.transaction() as db:
            row = db.execute("SELECT * FROM conversations WHERE id = ?", (conversation,)).fetchone()
        return conversation_of(row) if row else None

    def create(
        self, title: str = "", system: str = "", settings: Mapping[str, Any] | None = None
    ) -> Conversation:
        """A new, empty conversation."""
        now = time.time()
        made = Conversation(uuid.uuid4().hex, title, now, now, system, dict(settings or {}))
        with self._database.transaction() as db:
            db.execute(
                "INSERT INTO conversations (id, title, created, updated, system, settings)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (made.id, title, now, now, system, _dump(made.settings)),
            )
        return made

    def rename(self, conversation: str, title: str) -> bool:
        """False when the conversation is gone."""
        return self._set(conversation, "title", title)

    def restore(
        self, title: str, system: str, pinned: bool, rows: Sequence[StoredMessage]
    ) -> Conversation:
        """A new conversation with these turns, all or nothing."""
        made = Conversation(uuid.uuid4().hex, title, now := time.time(), now, system, {}, pinned)
        with self._database.transaction() as db:
            db.execute(
                "INSERT INTO conversations (id, title, created, updated, system, pinned)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (made.id, title, now, now, system, int(pinned)),
            )
            for row in rows:
                _insert(
                    db, made.id, row.role, row.content, row.ids, row.state, row.metrics, row.request
                )
        return made

    def pin(self, conversation: str, pinned: bool) -> bool:
        """Keep it at the top, or no longer; False when it is gone."""
        with self._database.transaction() as db:
            row = (int(pinned), conversation)
            return db.execute("UPDATE conversations SET pinned = ? WHERE id = ?", row).rowcount > 0

    def set_system(self, conversation: str, system: str) -> bool:
        """False when the conversation is gone."""
        return self._set(conversation, "system", system)

    def set_settings(self, conversation: str, settings: Mapping[str, Any]) -> bool:
        """False when the conversation is gone."""
        return self._set(conversation, "settings", _dump(settings))

    def delete(self, conversation: str) -> bool:
        """Delete it with its messages, overwriting their bytes; False when already gone."""
        with self._database.transaction() as db:
            done = db.execute("DELETE FROM conversations WHERE id = ?", (conversation,)).rowcount
        return done > 0

    # --- messages -------------------------------------------------------------------------------

    def messages(self, conversation: str) -> list[StoredMessage]:
        """The turns, oldest first."""
        with self._database.transaction() as db:
            rows = db.execute(
                "SELECT * FROM messages WHERE conversation = ? ORDER BY id", (conversation,)
            ).fetchall()
        return [message_of(row) for row in rows]

    def add_message(
        self,
        conversation: str,
        role: MessageRole,
        content: str,
        *,
        ids: Sequence[int] = (),
        state: MessageState = "complete",
        metrics: Mapping[str, Any] | None = None,
        request: Mapping[str, Any] | None = None,
    ) -> StoredMessage:
        """Append a turn. Raises HistoryError when the conversation is gone."""
        with self._database.transaction() as db:
            return _insert(db, conversation, role, content, ids, state, metrics, request)

    def add_turn(
        self, conversation: str, content: str, request: Mapping[str, Any] | None = None
    ) -> tuple[StoredMessage, StoredMessage]:
        """The user's message and the empty, `partial` reply, both or neither.

        Gives an untitled conversation its title. Raises HistoryError when the conversation is gone.
        """
        with self._database.transaction() as db:
            user = _insert(db, conversation, "user", content, (), "complete", None, None)
            reply = _insert(db, conversation, "assistant", "", (), "partial", None, request)
            db.execute(
                "UPDATE conversations SET title = ? WHERE id = ? AND title = ''",
                (title_of(content), conversation),
            )
        return user, reply

    def update_message(
        self,
        message: int,
        *,
        content: str | None = None,
        ids: Sequence[int] | None = None,
        state: MessageState | None = None,
        metrics: Mapping[str, Any] | None = None,
        request: Mapping[str, Any] | None = None,
    ) -> bool:
        """Change the named columns; False when the message was deleted meanwhile."""
        values = {
            "content": content,
            "ids": None if ids is None else _dump(list(ids)),
            "state": state,
            "metrics": None if metrics is None else _dump(metrics),
            "request": None if request is None else _dump(request),
        }
        given = {name: value for name, value in values.items() if value is not None}
        if not given:
            raise ValueError("update_message needs at least one column")
        columns = ", ".join(f"{name} = ?" for name in given)
        with self._database.transaction() as db:
            rows = db.execute(
                f"UPDATE messages SET {columns} WHERE id = ? RETURNING conversation",
                (*given.values(), message),
            ).fetchall()
            for row in rows:
                _touch(db, row["conversation"])
        return bool(rows)

    def truncate_from(self, message: int) -> int:
        """Delete this message and all after it in its conversation; how many went."""
        with self._database.transaction() as db:
            row = db.execute(
                "SELECT conversation FROM messages WHERE id = ?", (message,)
            ).fetchone()
            if row is None:
                return 0
            gone = db.execute(
                "DELETE FROM messages WHERE conversation = ? AND id >= ?",
                (row["conversation"], message),
            ).rowcount
            _touch(db, row["conversation"])
        return gone

    def close(self) -> None:
        """Safe to call twice; later calls of other methods raise HistoryError."""
        self._database.close()

    # --- inside ---------------------------------------------------------------------------------

    def _found(self, db: sqlite3.Connection, it: Conversation, wanted: Sequence[str]) -> Found:
        for word in wanted:
            if not search.holds(it.title, word):
                row = db.execute(
                    "SELECT content FROM messages WHERE conversation = ? AND holds(content, ?)"
                    " ORDER BY id LIMIT 1",
                    (it.id, word),
                ).fetchone()
                return Found(it, search.excerpt(row["content"], word))
        return Found(it, "")

    def _set(self, conversation: str, column: str, value: str) -> bool:
        with self._database.transaction() as db:
            done = db.execute(
                f"UPDATE conversations SET {column} = ?, updated = ? WHERE id = ?",
                (value, time.time(), conversation),
            ).rowcount
        return done > 0


def _insert(
    db: sqlite3.Connection,
    conversation: str,
    role: MessageRole,
    content: str,
    ids: Sequence[int],
    state: MessageState,
    metrics: Mapping[str, Any] | None,
    request: Mapping[str, Any] | None,
) -> StoredMessage:
    now = time.time()
    if not _touch(db, conversation):
        raise HistoryError("This conversation was deleted.", "Start a new one.")
    rows = db.execute(
        "INSERT INTO messages (conversation, role, content, ids, state, metrics, request, created)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING *",
        (
            conversation,
            role,
            content,
            _dump(list(ids)),
            state,
            _dump(metrics or {}),
            _dump(request or {}),
            now,
        ),
    ).fetchall()
    return message_of(rows[0])


def _touch(db: sqlite3.Connection, conversation: str) -> bool:
    row = (time.time(), conversation)
    return db.execute("UPDATE conversations SET updated = ? WHERE id = ?", row).rowcount > 0


def _dump(value: Mapping[str, Any] | list[int]) -> str:
    return json.dumps(value, ensure_ascii=False)
