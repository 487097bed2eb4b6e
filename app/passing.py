"""A guest's conversation: a tree of messages in memory, gone with the tab. Never on disk."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace

from app.branches import lineage, path, versions
from app.records import MessageRole, MessageState, StoredMessage
from app.transcript import JSON, Act
from app.words import tr
from specdec.errors import HistoryError


class Passing:
    """A `Transcript`. Every method may be called from any thread."""

    def __init__(self, name: str) -> None:
        self.id = name
        self._rows: dict[int, StoredMessage] = {}
        self._next = itertools.count(1)
        self._lock = threading.RLock()

    def messages(self) -> list[StoredMessage]:
        with self._lock:
            return path(self._rows.values())

    def versions(self) -> Mapping[int, tuple[int, ...]]:
        with self._lock:
            return versions(list(self._rows.values()))

    def show(self, message: int) -> bool:
        with self._lock:
            line = lineage(self._rows.values(), message)
            for chosen in line:
                self._choose(chosen)
        return bool(line)

    def add_turn(
        self, content: str, request: JSON, after: int | None = None, sent: JSON | None = None
    ) -> tuple[StoredMessage, StoredMessage]:
        with self._lock:
            if after is None:
                after = next((row.id for row in reversed(self.messages())), 0)
            user = self._add("user", content, after, request=sent)
            return user, self.add_reply(request, user.id)

    def add_reply(self, request: JSON, after: int) -> StoredMessage:
        with self._lock:
            return self._add("assistant", "", after, "partial", request)

    def add_written(self, content: str, request: JSON, after: int) -> StoredMessage:
        with self._lock:
            return self._add("assistant", content, after, "complete", request)

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
            row = self._rows.get(message)
            if row is None:
                return False
            self._rows[message] = replace(
                row,
                content=content,
                ids=tuple(ids),
                state=state,
                metrics=metrics,
                request=request,
            )
        return True

    def clear(self) -> tuple[Act, Act]:
        with self._lock:
            rows, self._rows = self._rows, {}

        def back() -> None:
            with self._lock:
                for row in self._rows.values():  # what was said since stands beside it
                    rows[row.id] = replace(row, shown=row.shown and row.parent > 0)
                self._rows = rows

        return back, rows.clear

    def _add(
        self,
        role: MessageRole,
        content: str,
        after: int,
        state: MessageState = "complete",
        request: JSON | None = None,
    ) -> StoredMessage:
        if after and after not in self._rows:
            raise HistoryError(tr("The message before it is gone."), tr("Reload the page."))
        row = StoredMessage(
            next(self._next),
            self.id,
            role,
            content,
            state=state,
            request=request or {},
            parent=after,
        )
        self._rows[row.id] = row
        self._choose(row)
        return row

    def _choose(self, chosen: StoredMessage) -> None:
        for row in list(self._rows.values()):
            if row.parent == chosen.parent:
                self._rows[row.id] = replace(row, shown=row.id == chosen.id)
