"""One worker, one job at a time, the rest in a visible queue. Knows nothing of what a job does."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Generic, Literal, TypeVar

from app.words import tr
from specdec.errors import BusyError

S = TypeVar("S")
Kind = Literal["load", "unload", "reply", "race", "verify", "bench"]
PASSING: tuple[Kind, ...] = ("load", "reply", "verify")
"""What a long job lets pass between two of its steps; another measurement waits for its end."""

WAITING = 32
"""Jobs that may wait: a room full of guests, and few enough to end within an evening."""
GUESTS_WAITING = 20
"""Of these, guests': the others are kept for the owner, who is never refused for their sake."""
OWN_WAITING = 2
"""Of these, one guest's: whoever opens more tabs than that waits like the others."""

OWNER = "owner"

log = logging.getLogger(__name__)


class Job(Generic[S]):
    """Work for the engine: the worker runs it, any number of pages watch `snapshot`.

    `is_set` makes it a `Cancel`: stopped by a user, or by `gone` (nobody is there any more).
    `who` asked: "owner", or a guest's name.
    """

    def __init__(
        self,
        kind: Kind,
        snapshot: S,
        run: Callable[[Job[S]], None],
        gone: Callable[[], bool] = lambda: False,
        who: str = OWNER,
    ) -> None:
        self.kind = kind
        self.who = who
        self.snapshot = snapshot
        self.run = run
        self.done = threading.Event()
        self._gone = gone
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Ask it to end within one round."""
        self._stopped.set()

    def is_set(self) -> bool:
        return self._stopped.is_set() or self._gone()


class Line:
    """First come, first served; loads go before replies that wait, the owner before guests.

    `over` hears of each job that was run.
    """

    def __init__(
        self, limit: int = WAITING, over: Callable[[Job[Any]], None] = lambda job: None
    ) -> None:
        self._limit = limit  # jobs that may wait
        self._over = over
        self._waiting: list[Job[Any]] = []
        self._running: list[Job[Any]] = []  # the last one runs; those before it let it pass
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._rested = time.monotonic()  # since when it has nothing to do

    def idle_s(self) -> float:
        """Seconds since the last job ended; 0 while one runs or waits."""
        with self._change:
            busy = self._running or self._waiting
            return 0.0 if busy else time.monotonic() - self._rested

    @property
    def current(self) -> Job[Any] | None:
        running = self._running[-1:]
        return running[0] if running else None

    @property
    def closed(self) -> bool:
        """The program ends: nothing is begun any more."""
        return self._closed

    def put(self, job: Job[Any]) -> None:
        """Raises BusyError when too many wait."""
        with self._change:
            self.check_room(job.who)
            guests = [i for i, other in enumerate(self._waiting) if other.who != OWNER]
            ahead = len(self._waiting) if job.who != OWNER or not guests else guests[0]
            self._add(ahead, job)

    def put_instead(self, job: Job[S]) -> list[Job[S]]:
        """Put it first, in place of others of its kind: one that runs is told to stop.

        Never refused. Those that waited are returned; they are the caller's to end.
        """
        with self._change:
            older = [other for other in self._waiting if other.kind == job.kind]
            self._waiting = [other for other in self._waiting if other.kind != job.kind]
            for running in self._running:
                if running.kind == job.kind:
                    running.stop()
            self._add(0, job)
            return older

    def _add(self, at: int, job: Job[Any]) -> None:
        self._waiting.insert(at, job)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="line", daemon=True)
            self._thread.start()
        self._change.notify_all()

    def check_room(self, who: str = OWNER) -> None:
        """Raises BusyError when as many wait as may."""
        with self._change:
            waiting = len(self._waiting)
            guests = [job.who for job in self._waiting if job.who != OWNER]
            own = guests.count(who)
            if who != OWNER and own >= OWN_WAITING:
                raise BusyError(
                    tr("{n} messages of yours already wait for an answer.", n=own),
                    tr("Wait for one of them."),
                )
            if waiting >= self._limit or (who != OWNER and len(guests) >= GUESTS_WAITING):
                raise BusyError(
                    tr("{n} messages already wait for an answer.", n=waiting),
                    tr("Send this one again in a moment."),
                )

    def position(self, job: Job[Any]) -> int:
        """Replies and races that are made before this one; 0 when it runs or is done."""
        with self._change:
            if job not in self._waiting:
                return 0
            ahead = [*self._waiting[: self._waiting.index(job)]]
            ahead += self._running[-1:]
            return sum(other.kind != "load" for other in ahead)

    def withdraw(self, job: Job[Any]) -> bool:
        """Take a waiting job out; False when it already runs or is done."""
        with self._change:
            if job not in self._waiting:
                return False
            self._waiting.remove(job)
            return True

    def end(self, job: Job[S], over: Callable[[S], S]) -> None:
        """Stop it; where it still waits it is over at once, `over` its snapshot."""
        job.stop()
        if self.withdraw(job):
            job.snapshot = over(job.snapshot)
            job.done.set()

    def close(self) -> None:
        """Stop the job that runs and start no other."""
        with self._change:
            self._closed = True
            self._waiting.clear()
            for job in self._running:
                job.stop()
            self._change.notify_all()

    def let_pass(self) -> None:
        """Called by the job that runs, between two steps: what waits now goes first (`PASSING`)."""
        with self._change:
            turn = [job for job in self._waiting if job.kind in PASSING]
        for job in turn:
            with self._change:
                if job not in self._waiting:  # withdrawn, or everything was closed
                    continue
                self._waiting.remove(job)
                self._running.append(job)
            self._do(job)

    def _work(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                job = self._waiting.pop(0)
                self._running.append(job)
            self._do(job)

    def _do(self, job: Job[Any]) -> None:
        try:
            job.run(job)
        except Exception:
            log.exception("a %s job failed", job.kind)  # jobs report their own errors
        finally:
            with self._change:
                self._running.remove(job)
                self._rested = time.monotonic()
            try:
                self._over(job)
            finally:
                job.done.set()


async def watch(
    job: Job[S], look: Callable[[], S] | None = None, every: float = 0.08
) -> AsyncIterator[S]:
    """Snapshots as they change, at most one in `every` seconds; the last one always comes.

    Tokens that arrive in between are in the next snapshot. Leaving does not stop the job.
    """
    look = look or (lambda: job.snapshot)
    last: S | None = None
    while True:
        done = job.done.is_set()  # read before looking, so that nothing is missed
        now = look()
        if now is not last and now != last:
            yield now
            last = now
        if done:
            return
        await asyncio.sleep(every)
