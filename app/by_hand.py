"""Replies that a person worded: marked wherever they are shown, so that none passes as the model's.

They have no ids: nothing of them was drawn, so there is nothing to verify, to go on with or to
colour, and the next prompt reads their text.
"""

from __future__ import annotations

from app.records import StoredMessage
from app.words import marked

REQUEST = {"by_hand": True}
"""What is stored with one."""

MARK = marked("edited by hand")


def by_hand(row: StoredMessage) -> bool:
    """Whether a person worded this reply."""
    return row.role == "assistant" and bool(row.request.get("by_hand"))
