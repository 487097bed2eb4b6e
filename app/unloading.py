"""Gives the engine's memory back: when asked, or when nobody used it for a while.

What was loaded stays wanted: the next message loads it again. Knows nothing of pages.
"""

from __future__ import annotations

import logging
import threading

from app.chats import owner_only
from app.line import Job, Line
from app.loader import Loader, LoadView
from app.session import Session
from app.settings import LONGEST_IDLE, SettingsFile
from app.words import tr
from specdec.contract import ChatEngine, Pair
from specdec.errors import SettingError

EVERY_S = 10.0
"""Between looks at the clock: an unload may come that much late."""

log = logging.getLogger(__name__)


class Unloading:
    """`pair` is what was unloaded and comes back with the next message."""

    def __init__(
        self, engine: ChatEngine, loader: Loader, line: Line, settings: SettingsFile
    ) -> None:
        self._engine, self._loader, self._line = engine, loader, line
        self._settings = settings
        self._closed = threading.Event()
        self._pair: Pair | None = None

    @property
    def pair(self) -> Pair | None:
        return self._pair if self._engine.status().state == "unloaded" else None

    def unload(self, session: Session) -> Job[LoadView]:
        """After the reply that is being made. Raises SettingError for a guest."""
        owner_only(session)
        return self._put()

    def minutes(self, session: Session) -> int | None:
        """Without use after which the pair goes; None: never. Raises SettingError for a guest."""
        owner_only(session)
        return self._settings.settings.idle_minutes

    def keep(self, session: Session, minutes: int | None) -> None:
        """Remember that setting. Raises SettingError: a guest, out of range, not writable."""
        owner_only(session)
        if minutes is not None and not 1 <= minutes <= LONGEST_IDLE:
            raise SettingError(
                tr("{minutes} minutes are out of range.", minutes=minutes),
                tr("1 to {n}, or empty: never.", n=f"{LONGEST_IDLE:,}"),
            )
        saved = self._settings.settings
        if saved.idle_minutes != minutes:
            self._settings.save(saved.model_copy(update={"idle_minutes": minutes}))

    def start(self, every: float = EVERY_S) -> None:
        """Look at the clock now and then, in a thread of its own."""
        threading.Thread(target=self._watch, args=(every,), name="idle", daemon=True).start()

    def look(self) -> bool:
        """Unload where it is time; whether it was."""
        minutes = self._settings.settings.idle_minutes
        if minutes is None or self._line.idle_s() < 60 * minutes:
            return False
        if self._engine.status().state != "ready":
            return False
        log.info("unloading after %s minutes without a message", minutes)
        self._put()
        return True

    def close(self) -> None:
        """Look no more."""
        self._closed.set()

    def _watch(self, every: float) -> None:
        while not self._closed.wait(every):
            self.look()

    def _put(self) -> Job[LoadView]:
        job: Job[LoadView] = Job("unload", LoadView(), self._run)
        for older in self._line.put_instead(job):
            older.done.set()
        return job

    def _run(self, job: Job[LoadView]) -> None:
        pair = self._engine.status().pair
        self._loader.unload(job)
        self._pair = pair or self._pair
