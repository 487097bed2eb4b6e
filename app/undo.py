"""What was deleted last, while it can be undone. Knows nothing of pages, rows or engines."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from app.words import tr
from specdec.errors import HistoryError, SpecdecError

WINDOW_S = 12.0
"""Seconds something comes back in; the page shows the button for ten of them."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Gone:
    """Something deleted: `back` undoes it, `purge` makes it final. Either is called once."""

    what: Literal["Deleted", "Cleared"]
    title: str
    conversation: str
    back: Callable[[], object]
    purge: Callable[[], object]


class Bin:
    """The last thing each party deleted. Every method may be called from any thread."""

    def __init__(self, window: float = WINDOW_S) -> None:
        self._window = window
        self._held: dict[str, tuple[Gone, threading.Timer]] = {}
        self._lock = threading.RLock()

    def put(self, party: str, gone: Gone) -> None:
        """Hold it for a while; what this party deleted before is final at once."""
        with self._lock:
            self._empty(party)
            timer = threading.Timer(self._window, self._over, (party, gone))
            timer.daemon = True
            self._held[party] = gone, timer
            timer.start()

    def undo(self, party: str) -> Gone:
        """Bring it back. Raises HistoryError where there is nothing to bring back any more.

        What `back` raises leaves it where it is.
        """
        with self._lock:
            held = self._held.get(party)
            if held is None:
                raise HistoryError(tr("It is gone for good: too much time has passed."))
            gone, timer = held
            gone.back()
            timer.cancel()
            del self._held[party]
            return gone

    def close(self) -> None:
        """All of it is final."""
        with self._lock:
            for party in list(self._held):
                self._empty(party)

    def _over(self, party: str, gone: Gone) -> None:
        with self._lock:
            held = self._held.get(party)
            if held is not None and held[0] is gone:
                self._empty(party)

    def _empty(self, party: str) -> None:
        held = self._held.pop(party, None)
        if held is None:
            return
        held[1].cancel()
        try:
            held[0].purge()
        except SpecdecError as error:  # it stays hidden; the next start deletes it
            log.warning("what was deleted is still on disk: %s", error)
