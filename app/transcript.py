"""Where a conversation's turns lie: the owner's in the history, a guest's in memory only.

Knows nothing of engines or pages.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from app.history import History
from app.records import MessageState, StoredMessage
from specdec.contract import Message

JSON = Mapping[str, Any]


class Transcript(Protocol):
    """The turns of one conversation. Every method may be called from any thread."""

    @property
    def id(self) -> str:
        """Names whose cached prefix the engine may reuse."""

    def messages(self) -> list[StoredMessage]:
        """Oldest first."""

    def add_turn(self, content: str, request: JSON) -> tuple[StoredMessage, StoredMessage]:
        """The user's message and an empty, partial reply."""

    def add_reply(self, request: JSON) -> StoredMessage:
        """An empty, partial reply to the last user message."""

    def update(
        self,
        message: int,
        content: str,
        ids: Sequence[int],
        state: MessageState,
        metrics: JSON,
        request: JSON,
    ) -> bool:
        """False when the message is gone."""

    def truncate_from(self, message: int) -> None:
        """Delete this message and all after it."""


class Stored:
    """A conversation in the history."""

    def __init__(self, history: History, conversation: str) -> None:
        self._history = history
        self.id = conversation

    def messages(self) -> list[StoredMessage]:
        return self._history.messages(self.id)

    def add_turn(self, content: str, request: JSON) -> tuple[StoredMessage, StoredMessage]:
        return self._history.add_turn(self.id, content, request)

    def add_reply(self, request: JSON) -> StoredMessage:
        return self._history.add_message(self.id, "assistant", "", state="partial", request=request)

    def update(
        self,
        message: int,
        content: str,
        ids: Sequence[int],
        state: MessageState,
        metrics: JSON,
        request: JSON,
    ) -> bool:
        return self._history.update_message(
            message, content=content, ids=ids, state=state, metrics=metrics, request=request
        )

    def truncate_from(self, message: int) -> None:
        self._history.truncate_from(message)


class Passing:
    """A guest's conversation: in memory, gone with the tab."""

    def __init__(self, name: str) -> None:
        self.id = name
        self._rows: list[StoredMessage] = []
        self._next = itertools.count(1)
        self._lock = threading.Lock()

    def messages(self) -> list[StoredMessage]:
        with self._lock:
            return list(self._rows)

    def add_turn(self, content: str, request: JSON) -> tuple[StoredMessage, StoredMessage]:
        with self._lock:
            user = StoredMessage(next(self._next), self.id, "user", content)
            self._rows.append(user)
        return user, self.add_reply(request)

    def add_reply(self, request: JSON) -> StoredMessage:
        with self._lock:
            reply = StoredMessage(
                next(self._next), self.id, "assistant", "", state="partial", request=request
            )
            self._rows.append(reply)
        return reply

    def update(
        self,
        message: int,
        content: str,
        ids: Sequence[int],
        state: MessageState,
        metrics: JSON,
        request: JSON,
    ) -> bool:
        with self._lock:
            for at, row in enumerate(self._rows):
                if row.id == message:
                    self._rows[at] = replace(
                        row,
                        content=content,
                        ids=tuple(ids),
                        state=state,
                        metrics=metrics,
                        request=request,
                    )
                    return True
        return False

    def truncate_from(self, message: int) -> None:
        with self._lock:
            self._rows = [row for row in self._rows if row.id < message]


def prompt_of(rows: Sequence[StoredMessage], system: str) -> tuple[Message, ...]:
    """Messages for the engine: empty replies left out, user turns that then touch joined."""
    turns: list[Message] = [Message("system", system)] if system.strip() else []
    for row in rows:
        if row.role == "assistant":
            if row.content:
                turns.append(Message("assistant", row.content, row.ids))
        elif turns and turns[-1].role == "user":
            turns[-1] = Message("user", f"{turns[-1].content}\n\n{row.content}")
        else:
            turns.append(Message("user", row.content))
    return tuple(turns)
