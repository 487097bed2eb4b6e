"""A conversation as a file: Markdown to read, JSON with all that is stored. Knows no database."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Literal

from app.attachments import whole
from app.branches import path
from app.by_hand import MARK, by_hand
from app.records import Conversation, StoredMessage

Form = Literal["md", "json"]
FORMAT = "specdec-chat 2"
"""Since 2 a message names its parent; before, each followed the one above it."""
TYPES: dict[Form, str] = {"md": "text/markdown", "json": "application/json"}
NAMES = {"user": "You", "assistant": "Reply"}


def export(conversation: Conversation, rows: Sequence[StoredMessage], form: Form) -> str:
    """The whole conversation, `rows` of every branch: as Markdown what is shown, as JSON all."""
    return as_markdown(conversation, rows) if form == "md" else as_json(conversation, rows)


def as_markdown(conversation: Conversation, rows: Sequence[StoredMessage]) -> str:
    """Title, system prompt, the turns that are shown: texts as they were written."""
    parts = [f"# {conversation.title or 'Untitled'}"]
    if conversation.system.strip():
        parts.append(f"## System prompt\n\n{conversation.system}")
    for row in path(rows):
        kept = "" if row.state == "complete" else f" ({row.state})"
        kept = f" ({MARK})" if by_hand(row) else kept
        parts.append(f"## {NAMES[row.role]}{kept}\n\n{whole(row)}")
    return "\n\n".join(parts) + "\n"


def as_json(conversation: Conversation, rows: Sequence[StoredMessage]) -> str:
    """All that is stored: every branch, token ids, figures and settings of each reply too."""
    kept = [{k: v for k, v in asdict(row).items() if k != "conversation"} for row in rows]
    whole = {"format": FORMAT, **asdict(conversation), "messages": kept}
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def file_name(conversation: Conversation, form: Form) -> str:
    """A name that every file system and header takes."""
    plain = re.sub(r"[^A-Za-z0-9]+", "-", conversation.title).strip("-").lower()[:48]
    return f"{plain or 'conversation'}.{form}"
