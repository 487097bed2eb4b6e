"""What the history stores, as data, and how a row becomes it. Knows no database connection."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

MessageRole = Literal["user", "assistant"]
MessageState = Literal["complete", "partial", "interrupted", "failed"]
TITLE_LENGTH = 60


@dataclass(frozen=True, slots=True)
class Conversation:
    """One row of the list. `created` and `updated` are Unix seconds."""

    id: str
    title: str
    created: float
    updated: float
    system: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """A conversation that a search found, and where: "" when its title holds it.

    `hidden`: a message of a version that is not shown, where only such a one holds it; else 0.
    """

    conversation: Conversation
    excerpt: str
    hidden: int = 0


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One turn as stored. `ids` are a reply's own token ids; `metrics` and `request` are JSON.

    `parent` is the message it follows, 0 for one that begins the conversation; `shown` that it is
    the chosen one of those that follow its parent (`app.branches`).
    """

    id: int
    conversation: str
    role: MessageRole
    content: str
    ids: tuple[int, ...] = ()
    state: MessageState = "complete"
    metrics: Mapping[str, Any] = field(default_factory=dict)
    request: Mapping[str, Any] = field(default_factory=dict)
    created: float = 0.0
    parent: int = 0
    shown: bool = True


def title_of(text: str) -> str:
    """The first line that says something, cut at a word."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if len(line) <= TITLE_LENGTH:
        return line
    head = line[: TITLE_LENGTH - 1]
    return (head.rsplit(" ", 1)[0] if " " in head else head) + "…"


def conversation_of(row: sqlite3.Row) -> Conversation:
    values = {name: row[name] for name in ("id", "title", "created", "updated", "system")}
    return Conversation(**values, settings=json.loads(row["settings"]), pinned=bool(row["pinned"]))


def message_of(row: sqlite3.Row) -> StoredMessage:
    values = dict(row)
    values["ids"] = tuple(json.loads(row["ids"]))
    values["metrics"] = json.loads(row["metrics"])
    values["request"] = json.loads(row["request"])
    values["shown"] = bool(row["shown"])
    return StoredMessage(**values)
