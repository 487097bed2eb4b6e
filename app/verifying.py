"""Verify: a stored reply against plain decoding, by the same worker in the same queue.

Knows stored turns, the engine and the line; nothing of pages. What came of it is kept in memory.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace

from app.chats import Chats
from app.check import Check, check_loaded, made_by
from app.guests import Guests
from app.line import Job, Line, watch
from app.records import StoredMessage
from app.session import Session
from app.words import marked, tr
from specdec.contract import ChatEngine, ErrorInfo, Reply
from specdec.errors import HistoryError, SpecdecError

KEPT = 500
"""Verdicts remembered, all conversations together; the oldest are forgotten."""

LOAD_IT = marked("Load what wrote it to verify it.")

log = logging.getLogger(__name__)


class Verifier:
    """Every method may be called from any thread."""

    def __init__(
        self,
        engine: ChatEngine,
        line: Line,
        chats: Chats,
        gone: Callable[[Session], bool],
        guests: Guests,
    ) -> None:
        self._engine = engine
        self._line = line
        self._chats = chats
        self._gone = gone
        self._guests = guests
        self._jobs: OrderedDict[tuple[str, int], Job[Check]] = OrderedDict()

    def start(self, session: Session, message: int) -> Job[Check]:
        """Queue the comparison of a reply that this tab shows.

        Raises HistoryError when it is gone, SettingError where it cannot be compared, BusyError.
        """
        transcript = self._chats.existing(session)
        rows = transcript.messages() if transcript else []
        row = next((row for row in rows if row.id == message), None)
        if transcript is None or row is None:
            raise HistoryError(tr("That reply is gone."), tr("Reload the page."))
        reply = made_by(rows, row)
        check_loaded(row, self._engine.status().pair, tr(LOAD_IT))
        self._guests.ask(session.who, turn=False)
        job: Job[Check] = Job(
            "verify",
            Check(),
            lambda job: self._run(row, reply, job),
            gone=lambda: self._gone(session),
            who=session.who,
        )
        self._line.put(job)
        self._jobs[transcript.id, message] = job
        while len(self._jobs) > KEPT:
            self._jobs.popitem(last=False)
        return job

    def stop(self, session: Session, message: int) -> None:
        """End it within one round; without a verdict."""
        job = self._jobs.get((self._chats.place(session), message))
        if job is not None:
            self._end(job)

    def drop(self, place: str, only: int | None = None) -> None:
        """The replies of a transcript, or one of them, are gone or others: so is what was found."""
        for where, message in list(self._jobs):
            if where == place and only in (None, message):
                self._end(self._jobs.pop((where, message)))

    def leave(self, place: str, first: int) -> None:
        """Messages from `first` on are no longer shown: end what is not done, keep the rest."""
        for (where, message), job in list(self._jobs.items()):
            if where == place and message >= first and not job.done.is_set():
                self._end(self._jobs.pop((where, message)))

    def running(self, session: Session) -> Job[Check] | None:
        """The comparison of a reply this tab shows, while it waits or goes on."""
        place = self._chats.place(session)
        jobs = [job for (where, _), job in list(self._jobs.items()) if where == place]
        return next((job for job in reversed(jobs) if not job.done.is_set()), None)

    def checks(self, session: Session) -> Mapping[int, Check]:
        """What is known of the replies this tab shows, by message id."""
        place = self._chats.place(session)
        return {
            message: job.snapshot
            for (where, message), job in list(self._jobs.items())
            if where == place
        }

    def watch(self, job: Job[Check]) -> AsyncIterator[Check]:
        """A comparison as it goes; the last snapshot is done."""

        def look() -> Check:
            now = job.snapshot
            return replace(now, position=self._line.position(job)) if now.step == "waiting" else now

        return watch(job, look)

    def _end(self, job: Job[Check]) -> None:
        self._line.end(job, lambda _: Check("done"))

    def _run(self, row: StoredMessage, reply: Reply, job: Job[Check]) -> None:
        job.snapshot = Check("comparing")
        try:
            check_loaded(
                row, self._engine.status().pair, tr(LOAD_IT)
            )  # a load may have gone before
            job.snapshot = Check("done", comparison=self._engine.verify(reply, job))
        except Exception as error:
            stopped = job.is_set()  # the engine says so by an error
            log.info("verify ended: %s", error, exc_info=not isinstance(error, SpecdecError))
            job.snapshot = Check("done", error=None if stopped else ErrorInfo.of(error))
