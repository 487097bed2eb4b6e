"""Downloads and checks of models, one at a time, apart from replies and loads. Knows no page.

Each runs in a process of its own (`specdec.carrier`), so it goes on whatever a page does.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from specdec.carrier import Carried, Told, Work
from specdec.contract import ErrorInfo, Failed, Phase
from specdec.integrity import Integrity

State = Literal["waiting", "running", "paused", "failed", "done"]

log = logging.getLogger(__name__)


class Carrying(Protocol):
    """What runs one errand: `specdec.carrier.Carrier`."""

    def events(self) -> Iterator[Told]: ...

    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Task:
    """Where one model's download or check stands. `found` is what a check found."""

    model: str
    work: Work
    state: State
    phase: Phase | None = None
    error: ErrorInfo | None = None
    found: Integrity | None = None

    @property
    def going(self) -> bool:
        return self.state in ("waiting", "running")


class FetchQueue:
    """Every method may be called from any thread."""

    def __init__(self, start: Callable[[str, Work], Carrying]) -> None:
        """`start` begins the work on a model."""
        self._start = start
        self._tasks: dict[str, Task] = {}  # by model, the latest
        self._then: dict[str, Callable[[], None]] = {}
        self._carrier: Carrying | None = None
        self._current = ""
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def tasks(self) -> dict[str, Task]:
        """The latest of each model."""
        with self._change:
            return dict(self._tasks)

    def current(self) -> Task | None:
        """The one that runs."""
        with self._change:
            task = self._tasks.get(self._current)
            return task if task and task.state == "running" else None

    def put(self, model: str, work: Work = "fetch", then: Callable[[], None] | None = None) -> None:
        """Wait for a turn; what waits or runs already stays as it is. `then` follows success."""
        with self._change:
            if then is not None:
                self._then[model] = then
            if (task := self._tasks.get(model)) is not None and task.going:
                return
            self._tasks.pop(model, None)  # last in the order of turns
            self._tasks[model] = Task(model, work, "waiting")
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="fetches", daemon=True)
                self._thread.start()
            self._change.notify_all()

    def pause(self, model: str) -> None:
        """Stop it, keep what came. Returns when nothing of it runs any more."""
        self._end(model, "paused")

    def drop(self, model: str) -> None:
        """Stop it and forget it. Returns when nothing of it runs any more."""
        self._end(model, None)

    def close(self) -> None:
        """Stop what runs and start no other; what came is kept."""
        with self._change:
            self._closed = True
            self._change.notify_all()
            carrier = self._carrier
        if carrier is not None:
            carrier.stop()

    def _end(self, model: str, state: State | None) -> None:
        with self._change:
            self._then.pop(model, None)
            task = self._tasks.get(model)
            running = model == self._current
            carrier = self._carrier if running else None
            if task is not None and state is None:
                del self._tasks[model]
            elif task is not None and state is not None and task.going:
                self._tasks[model] = replace(task, state=state)
        if carrier is not None:
            carrier.stop()
        if running:
            with self._change:
                self._change.wait_for(lambda: self._current != model, timeout=10)

    def _work(self) -> None:
        while True:
            with self._change:
                self._carrier, self._current = None, ""
                self._change.notify_all()
                self._change.wait_for(lambda: self._closed or self._waiting() is not None)
                if self._closed:
                    return
                task = self._waiting()
                assert task is not None
                self._current = task.model
                self._tasks[task.model] = replace(task, state="running")
            try:
                self._carry(task)
            except Exception as error:  # no process could be started: said like any other failure
                log.exception("the %s of %s failed", task.work, task.model)
                self._note(task, state="failed", error=ErrorInfo.of(error))

    def _carry(self, task: Task) -> None:
        carrier = self._start(task.model, task.work)
        with self._change:
            self._carrier = carrier
            wanted = self._is_current(task) and not self._closed
        if not wanted:  # paused while the process started
            carrier.stop()
        for told in carrier.events():
            match told:
                case Phase():
                    self._note(task, phase=told)
                case Failed(error):
                    self._note(task, state="failed", error=error, phase=None)
                case Carried(found):
                    if self._is_current(task) and (then := self._then.pop(task.model, None)):
                        then()  # first: whoever sees that it is done sees what follows too
                    self._note(task, state="done", found=found, phase=None)

    def _waiting(self) -> Task | None:
        return next((task for task in self._tasks.values() if task.state == "waiting"), None)

    def _is_current(self, task: Task) -> bool:
        now = self._tasks.get(task.model)
        return now is not None and now.state == "running"

    def _note(self, task: Task, **change: object) -> bool:
        """What became of it, unless it was paused or dropped meanwhile."""
        with self._change:
            if not self._is_current(task):
                return False
            self._tasks[task.model] = replace(self._tasks[task.model], **change)  # type: ignore[arg-type]
            return True
