"""Numbered migrations of the history database. Knows SQL only; nothing of chats, pages or engines.

A migration is never edited once released: a change is a new row at the end.
"""

from __future__ import annotations

import sqlite3
import time

from app.words import tr
from specdec.errors import HistoryError

MIGRATIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "0001_conversations",
        (
            """CREATE TABLE conversations (
                id TEXT PRIMARY KEY,
                title TEXT NOT NULL DEFAULT '',
                created REAL NOT NULL,
                updated REAL NOT NULL,
                system TEXT NOT NULL DEFAULT '',
                settings TEXT NOT NULL DEFAULT '{}'
            )""",
            "CREATE INDEX conversations_by_update ON conversations (updated DESC)",
        ),
    ),
    (
        "0002_messages",
        (
            """CREATE TABLE messages (
                id INTEGER PRIMARY KEY AUTOINCREMENT,
                conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
                role TEXT NOT NULL CHECK (role IN ('user', 'assistant')),
                content TEXT NOT NULL DEFAULT '',
                ids TEXT NOT NULL DEFAULT '[]',
                state TEXT NOT NULL DEFAULT 'complete'
                    CHECK (state IN ('complete', 'partial', 'interrupted', 'failed')),
                metrics TEXT NOT NULL DEFAULT '{}',
                request TEXT NOT NULL DEFAULT '{}',
                created REAL NOT NULL
            )""",
            "CREATE INDEX messages_by_conversation ON messages (conversation, id)",
        ),
    ),
    (
        "0003_pinned",
        ("ALTER TABLE conversations ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0",),
    ),
    (
        "0004_branches",  # no foreign key: deleting a long chat would recurse once a message
        (
            "ALTER TABLE messages ADD COLUMN parent INTEGER NOT NULL DEFAULT 0",
            "ALTER TABLE messages ADD COLUMN shown INTEGER NOT NULL DEFAULT 1",
            """UPDATE messages SET parent = coalesce((SELECT max(before.id) FROM messages AS before
                WHERE before.conversation = messages.conversation AND before.id < messages.id), 0)
            """,
            "DROP INDEX messages_by_conversation",
            "CREATE INDEX messages_by_parent ON messages (conversation, parent, id)",
        ),
    ),
    (
        "0005_deleted",  # what can be undone: since when, and where cleared messages came from
        (
            "ALTER TABLE conversations ADD COLUMN deleted REAL",
            "ALTER TABLE conversations ADD COLUMN cleared_from TEXT NOT NULL DEFAULT ''",
        ),
    ),
)


def migrate(connection: sqlite3.Connection, last: str | None = None) -> list[str]:
    """Apply what is missing, up to and including `last` (None: all), and name what was applied.

    The connection must be in autocommit mode. Each migration is one transaction, so a crash leaves
    the version before it. Raises HistoryError for a database written by a newer program.
    """
    connection.execute(
        "CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, applied REAL NOT NULL)"
    )
    known = [name for name, _ in MIGRATIONS]
    newer = sorted(applied(connection) - set(known))
    if newer:
        raise HistoryError(
            tr(
                "The history was written by a newer version of this program ({name}).",
                name=newer[-1],
            ),
            tr("Update the program, or start it with another --data-dir."),
        )
    done: list[str] = []
    for name, statements in MIGRATIONS:
        if _apply(connection, name, statements):
            done.append(name)
        if name == last:
            break
    return done


def applied(connection: sqlite3.Connection) -> set[str]:
    """Names of the migrations this database has had."""
    return {row[0] for row in connection.execute("SELECT name FROM migrations")}


def _apply(connection: sqlite3.Connection, name: str, statements: tuple[str, ...]) -> bool:
    connection.execute("BEGIN IMMEDIATE")  # a second program may be migrating the same file
    try:
        if name in applied(connection):
            connection.execute("ROLLBACK")
            return False
        for statement in statements:
            connection.execute(statement)
        connection.execute("INSERT INTO migrations VALUES (?, ?)", (name, time.time()))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return True
