"""The same ChatEngine over a pipe to a spawned worker, ended and replaced on a model switch.

Ending the process is what returns all memory (DESIGN 1). Knows the contract; never imports torch.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

from specdec import catalogue
from specdec.contract import (
    Cancel,
    ChatRequest,
    Comparison,
    ErrorInfo,
    Event,
    Failed,
    Finished,
    Loaded,
    LoadEvent,
    Message,
    ModelInfo,
    NeverCancel,
    Notice,
    Phase,
    Reply,
    Status,
)
from specdec.errors import EngineError, SpecdecError
from specdec.metrics import Metrics
from specdec.options import EngineOptions
from specdec.pipe import Worker


class ProcessEngine:
    """Implements `ChatEngine`. A dead worker is one `Failed`; the next message restarts it."""

    def __init__(self, options: EngineOptions) -> None:
        self._options = options
        self._worker: Worker | None = None
        self._wanted: tuple[str | None, str | None] = (options.target, options.draft)
        self._status = Status("starting", versions=catalogue.versions())
        self._lock = threading.Lock()
        self._loads = 0  # number of the newest load; an older one is superseded
        self._settled = threading.Event()  # set while no load is under way
        self._settled.set()
        self._running = 0
        self._closed = False

    def models(self) -> Sequence[ModelInfo]:
        """Answered here: the registry needs no torch."""
        return catalogue.rows(self._options)

    def load(self, target: str | None = None, draft: str | None = None) -> Iterator[LoadEvent]:
        """End the old worker and load in a new one. A newer load supersedes this one."""
        with self._lock:
            self._loads += 1
            number = self._loads
            old, self._worker = self._worker, None
            self._wanted = (target or self._options.target, draft or self._options.draft)
            self._settled.clear()
            self._note(Status("loading", phase=Phase("starting")))
        try:
            yield Phase("starting")
            if old:
                old.end()
            yield from self._load_in(Worker(self._options), number)
        finally:
            with self._lock:
                if number == self._loads:
                    self._settled.set()

    def stream(self, request: ChatRequest, cancel: Cancel) -> Iterator[Event]:
        """See `ChatEngine.stream`; waits for a load under way, restarts a dead worker."""
        while not self._settled.wait(0.05):
            if cancel.is_set():
                yield Finished("cancelled", Metrics())
                return
        worker = self._worker
        if worker is None or not worker.alive:
            yield Notice("The engine is starting again.")
            for event in self.load(*self._wanted):
                if isinstance(event, Failed):
                    yield event
                    return
            worker = self._worker
        if worker is None:
            yield Failed(ErrorInfo.of(EngineError("No model is loaded.", "Choose one first.")))
            return
        try:
            self._running += 1
            yield from worker.call("stream", (request,), cancel)
        except SpecdecError as error:
            yield Failed(ErrorInfo.of(self._why(worker, error)))
        finally:
            self._running -= 1

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Raises EngineError when no model is loaded."""
        return int(next(self._need_worker().call("count_tokens", (messages,), NeverCancel())))

    def verify(self, reply: Reply, cancel: Cancel) -> Comparison:
        """Raises EngineError when no model is loaded or the comparison was cancelled."""
        result: Comparison = next(self._need_worker().call("verify", (reply,), cancel))
        return result

    def status(self) -> Status:
        """Answered here, at once."""
        return replace(self._status, queue=self._running)

    def close(self) -> None:
        """End the worker; streams under way end in `Failed`."""
        with self._lock:
            self._closed = True
            self._loads += 1
            worker, self._worker = self._worker, None
            self._settled.set()
        if worker:
            worker.end()

    def _load_in(self, worker: Worker, number: int) -> Iterator[LoadEvent]:
        with self._lock:
            newest = number == self._loads and not self._closed
            if newest:
                self._worker = worker
        if not newest:
            worker.end()
            yield Failed(ErrorInfo.of(EngineError("Another model was chosen meanwhile.")))
            return
        try:
            for event in worker.call("load", self._wanted, NeverCancel()):
                if number == self._loads:
                    self._note(_status_after(event))
                yield event
        except SpecdecError as error:
            info = ErrorInfo.of(self._why(worker, error))
            if number == self._loads:
                self._note(Status("failed", error=info))
            yield Failed(info)

    def _note(self, status: Status) -> None:
        self._status = replace(status, versions=self._status.versions)

    def _why(self, worker: Worker, error: SpecdecError) -> SpecdecError:
        """A worker we ended ourselves did not crash; one that crashed is shown by /health."""
        if worker is not self._worker:
            return EngineError("The engine was replaced in the middle of this.", "Try again.")
        if not worker.alive:
            self._note(Status("failed", error=ErrorInfo.of(error)))
        return error

    def _need_worker(self) -> Worker:
        if self._worker is None or not self._settled.is_set():
            raise EngineError("No model is loaded yet.", "Wait until the status says ready.")
        return self._worker


def _status_after(event: LoadEvent) -> Status:
    if isinstance(event, Phase):
        return Status("loading", phase=event)
    if isinstance(event, Loaded):
        return Status("ready", pair=event.pair)
    return Status("failed", error=event.error)
