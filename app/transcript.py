"""Where a conversation's turns lie: the owner's in the history (a guest's: `app.passing`).

Knows nothing of engines or pages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from app.attachments import whole
from app.history import History
from app.records import MessageState, StoredMessage
from app.thoughts import split
from specdec.contract import Message

JSON = Mapping[str, Any]
Act = Callable[[], object]


class Transcript(Protocol):
    """The turns of one conversation. Every method may be called from any thread."""

    @property
    def id(self) -> str:
        """Names whose cached prefix the engine may reuse."""

    def messages(self) -> list[StoredMessage]:
        """The branch that is shown, oldest first."""

    def versions(self) -> Mapping[int, tuple[int, ...]]:
        """What stands beside the messages shown, as `branches.versions`."""

    def show(self, message: int) -> bool:
        """Show the branch of this message; False when it is gone."""

    def add_turn(
        self, content: str, request: JSON, after: int | None = None, sent: JSON | None = None
    ) -> tuple[StoredMessage, StoredMessage]:
        """The user's message and an empty, partial reply, shown after another message.

        None: after the last that is shown; 0: as a beginning. `sent` is the message's own request,
        the files that go with it. Raises HistoryError when it is gone.
        """

    def add_reply(self, request: JSON, after: int) -> StoredMessage:
        """An empty, partial reply to a message; it is shown. Raises HistoryError."""

    def add_written(self, content: str, request: JSON, after: int) -> StoredMessage:
        """A whole reply to a message, which no model made; it is shown. Raises HistoryError."""

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

    def clear(self) -> tuple[Act, Act]:
        """Hide the messages of every branch: what brings them back, and what makes it final."""


class Stored:
    """A conversation in the history."""

    def __init__(self, history: History, conversation: str) -> None:
        self._history = history
        self.id = conversation

    def messages(self) -> list[StoredMessage]:
        return self._history.messages(self.id)

    def versions(self) -> Mapping[int, tuple[int, ...]]:
        return self._history.versions(self.id)

    def show(self, message: int) -> bool:
        return self._history.show(self.id, message)

    def add_turn(
        self, content: str, request: JSON, after: int | None = None, sent: JSON | None = None
    ) -> tuple[StoredMessage, StoredMessage]:
        return self._history.add_turn(self.id, content, request, after, sent)

    def add_reply(self, request: JSON, after: int) -> StoredMessage:
        return self._history.add_message(
            self.id, "assistant", "", after=after, state="partial", request=request
        )

    def add_written(self, content: str, request: JSON, after: int) -> StoredMessage:
        return self._history.add_message(
            self.id, "assistant", content, after=after, request=request
        )

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

    def clear(self) -> tuple[Act, Act]:
        hidden = self._history.hide_messages(self.id)
        return partial(self._history.bring_back, hidden), partial(self._history.delete, hidden)


def prompt_of(rows: Sequence[StoredMessage], system: str) -> tuple[Message, ...]:
    """Messages for the engine: empty replies left out, user turns that then touch joined.

    What a model thought aloud is left out once its reply has been answered.
    """
    turns: list[Message] = [Message("system", system)] if system.strip() else []
    for at, row in enumerate(rows):
        if row.role == "assistant":
            said = answer_of(row) if at < len(rows) - 1 else row.content
            if said:
                turns.append(Message("assistant", said, row.ids))
        elif turns and turns[-1].role == "user":
            turns[-1] = Message("user", f"{turns[-1].content}\n\n{whole(row)}")
        else:
            turns.append(Message("user", whole(row)))
    return tuple(turns)


def answer_of(row: StoredMessage) -> str:
    """A reply as later prompts have it: without what was thought."""
    return split(row.content, bool(row.request.get("thinking"))).answer
