"""Conversations and messages on disk (SQLite). Knows nothing of models, pages or streaming.

A reply is a row before its first token shows and grows while it is made: a crash leaves it readable
with state `partial`. Only the owner's chats are ever written here.
"""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app import hidden_rows, message_rows, search
from app.attachments import searched, title_from
from app.database import Database
from app.message_rows import dump, touch
from app.records import Conversation as Conversation
from app.records import Found, conversation_of
from app.records import MessageRole as MessageRole
from app.records import MessageState as MessageState
from app.records import StoredMessage as StoredMessage
from app.records import title_of as title_of

KEPT = "deleted IS NULL"
ORDER = "ORDER BY pinned DESC, updated DESC, id"
TEXT = (
    "m.content || CASE m.role WHEN 'user' THEN (SELECT coalesce(char(10) || group_concat("
    "json_extract(value, '$.name') || char(10) || json_extract(value, '$.text'), char(10)), '')"
    " FROM json_each(m.request, '$.attachments')) ELSE '' END"
)
"""As `attachments.searched`: a message with the files that go with it."""
HOLDS = (
    "(holds(c.title, ?) OR EXISTS (SELECT 1 FROM messages m"
    f" WHERE m.conversation = c.id AND holds({TEXT}, ?)))"
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
            rows = db.execute(f"SELECT * FROM conversations WHERE {KEPT} {ORDER}").fetchall()
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
            rows = db.execute(
                f"SELECT * FROM conversations c WHERE {KEPT} AND {where} {ORDER}", twice
            )
            return [self._found(db, conversation_of(row), wanted) for row in rows.fetchall()]

    def conversation(self, conversation: str) -> Conversation | None:
        """One conversation, None when it is gone."""
        with self._database.transaction() as db:
            found = f"SELECT * FROM conversations WHERE id = ? AND {KEPT}"
            row = db.execute(found, (conversation,)).fetchone()
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
                (made.id, title, now, now, system, dump(made.settings)),
            )
        return made

    def rename(self, conversation: str, title: str) -> bool:
        """False when the conversation is gone."""
        return self._set(conversation, "title", title)

    def restore(
        self, title: str, system: str, pinned: bool, rows: Sequence[StoredMessage]
    ) -> Conversation:
        """A new conversation with these branches, parents first, all or nothing."""
        made = Conversation(uuid.uuid4().hex, title, now := time.time(), now, system, {}, pinned)
        with self._database.transaction() as db:
            db.execute(
                "INSERT INTO conversations (id, title, created, updated, system, pinned)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (made.id, title, now, now, system, int(pinned)),
            )
            message_rows.plant(db, made.id, rows)
        return made

    def pin(self, conversation: str, pinned: bool) -> bool:
        """Keep it at the top, or no longer; False when it is gone."""
        with self._database.transaction() as db:
            row = (int(pinned), conversation)
            pin = f"UPDATE conversations SET pinned = ? WHERE id = ? AND {KEPT}"
            return db.execute(pin, row).rowcount > 0

    def set_system(self, conversation: str, system: str) -> bool:
        """False when the conversation is gone."""
        return self._set(conversation, "system", system)

    def delete(self, conversation: str) -> bool:
        """Delete it with its messages, overwriting their bytes; False when already gone."""
        with self._database.transaction() as db:
            done = db.execute("DELETE FROM conversations WHERE id = ?", (conversation,)).rowcount
        return done > 0

    # --- what can be undone ---------------------------------------------------------------------

    def hide(self, conversation: str) -> bool:
        """Take it out of every list until `bring_back` or `delete`; False when it is gone."""
        with self._database.transaction() as db:
            return hidden_rows.hide(db, conversation)

    def hide_messages(self, conversation: str) -> str:
        """Take all its messages out; the name for `bring_back` or `delete`."""
        with self._database.transaction() as db:
            return hidden_rows.hide_messages(db, conversation)

    def bring_back(self, hidden: str) -> bool:
        """Undo either; False when it is gone."""
        with self._database.transaction() as db:
            return hidden_rows.bring_back(db, hidden)

    def purge(self) -> None:
        """Delete all that is hidden: what an earlier run left."""
        with self._database.transaction() as db:
            hidden_rows.purge(db)

    # --- messages -------------------------------------------------------------------------------

    def messages(self, conversation: str) -> list[StoredMessage]:
        """The turns of the branch that is shown, oldest first."""
        with self._database.transaction() as db:
            return message_rows.shown(db, conversation)

    def tree(self, conversation: str) -> list[StoredMessage]:
        """The turns of every branch, oldest first."""
        with self._database.transaction() as db:
            return message_rows.tree(db, conversation)

    def versions(self, conversation: str) -> Mapping[int, tuple[int, ...]]:
        """What stands beside the messages shown, as `branches.versions`."""
        with self._database.transaction() as db:
            return message_rows.beside(db, conversation)

    def show(self, conversation: str, message: int) -> bool:
        """Show the branch of this message; False when it is gone."""
        with self._database.transaction() as db:
            return message_rows.show(db, conversation, message)

    def add_message(
        self,
        conversation: str,
        role: MessageRole,
        content: str,
        *,
        after: int | None = None,
        ids: Sequence[int] = (),
        state: MessageState = "complete",
        metrics: Mapping[str, Any] | None = None,
        request: Mapping[str, Any] | None = None,
    ) -> StoredMessage:
        """Add a turn after another (None: the last shown, 0: none); it is shown.

        Raises HistoryError when the conversation or the other turn is gone.
        """
        with self._database.transaction() as db:
            parent = message_rows.last(db, conversation) if after is None else after
            return message_rows.insert(
                db,
                conversation,
                role,
                content,
                parent=parent,
                ids=ids,
                state=state,
                metrics=metrics,
                request=request,
            )

    def add_turn(
        self,
        conversation: str,
        content: str,
        request: Mapping[str, Any] | None = None,
        after: int | None = None,
        sent: Mapping[str, Any] | None = None,
    ) -> tuple[StoredMessage, StoredMessage]:
        """The user's message and the empty, `partial` reply, both or neither.

        `after` as in `add_message`; `sent` is the message's own request, the files that go with it.
        Gives an untitled conversation its title. Raises HistoryError
        when the conversation or the other turn is gone.
        """
        with self._database.transaction() as db:
            parent = message_rows.last(db, conversation) if after is None else after
            user = message_rows.insert(
                db, conversation, "user", content, parent=parent, request=sent
            )
            reply = message_rows.insert(
                db, conversation, "assistant", "", parent=user.id, state="partial", request=request
            )
            db.execute(
                "UPDATE conversations SET title = ? WHERE id = ? AND title = ''",
                (title_of(title_from(content, sent or {})), conversation),
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
            "ids": None if ids is None else dump(list(ids)),
            "state": state,
            "metrics": None if metrics is None else dump(metrics),
            "request": None if request is None else dump(request),
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
                touch(db, row["conversation"])
        return bool(rows)

    def close(self) -> None:
        """Safe to call twice; later calls of other methods raise HistoryError."""
        self._database.close()

    # --- inside ---------------------------------------------------------------------------------

    def _found(self, db: sqlite3.Connection, it: Conversation, wanted: Sequence[str]) -> Found:
        word = next((word for word in wanted if not search.holds(it.title, word)), None)
        if word is None:
            return Found(it, "")
        found = [row for row in message_rows.shown(db, it.id) if search.holds(searched(row), word)]
        if found:
            return Found(it, search.excerpt(searched(found[0]), word))
        rows = (row for row in message_rows.tree(db, it.id) if search.holds(searched(row), word))
        hit = next(rows)
        return Found(it, search.excerpt(searched(hit), word), hit.id)

    def _set(self, conversation: str, column: str, value: str) -> bool:
        with self._database.transaction() as db:
            done = db.execute(
                f"UPDATE conversations SET {column} = ?, updated = ? WHERE id = ? AND {KEPT}",
                (value, time.time(), conversation),
            ).rowcount
        return done > 0
