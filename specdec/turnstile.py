"""One running turn at a time, first come first served. Knows threads; nothing of models."""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType

from specdec.errors import BusyError


class Ticket:
    """A place in the line; leave it, or use it as a context manager."""

    def __init__(self, line: Turnstile) -> None:
        self._line = line

    @property
    def position(self) -> int:
        """Tickets in front of this one; 0 means it is this one's turn."""
        return self._line.position(self)

    def wait(self, timeout: float) -> bool:
        """Block up to `timeout` seconds; True when it is this ticket's turn."""
        return self._line.wait(self, timeout)

    def leave(self) -> None:
        """Let the next one go on; safe to call twice."""
        self._line.leave(self)

    def __enter__(self) -> Ticket:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.leave()


class Turnstile:
    """At most `most` tickets, the running one included."""

    def __init__(self, most: int = 16) -> None:
        self._most = most
        self._line: deque[Ticket] = deque()
        self._changed = threading.Condition()

    def join(self) -> Ticket:
        """Take a place at the end. Raises BusyError when the line is full."""
        with self._changed:
            if len(self._line) >= self._most:
                raise BusyError(
                    f"{len(self._line)} replies are waiting already.", "Try again in a minute."
                )
            ticket = Ticket(self)
            self._line.append(ticket)
            return ticket

    def __len__(self) -> int:
        with self._changed:
            return len(self._line)

    def position(self, ticket: Ticket) -> int:
        """Index in the line."""
        with self._changed:
            return self._line.index(ticket)

    def wait(self, ticket: Ticket, timeout: float) -> bool:
        """True once `ticket` is first, False after `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self._line[0] is ticket, timeout)

    def leave(self, ticket: Ticket) -> None:
        """Remove `ticket`, wherever it stands."""
        with self._changed:
            if ticket in self._line:
                self._line.remove(ticket)
                self._changed.notify_all()
