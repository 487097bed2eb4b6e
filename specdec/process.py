"""The same ChatEngine over a pipe to a spawned worker, ended and replaced on a model switch.

Ending the process is what returns all memory (DESIGN 1). Knows the contract; never imports torch.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace

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
from specdec.drafters.store_file import forget
from specdec.errors import EngineError, SpecdecError
from specdec.metrics import Metrics
from specdec.options import EngineOptions
from specdec.pipe import Worker

_POLL = 0.05  # seconds between looks at a cancel flag

Wanted = tuple[str | None, str | None]


@dataclass(frozen=True, slots=True)
class _Load:
    """One load that was begun: its number, what it is to load, and the worker it replaces."""

    number: int
    wanted: Wanted
    old: Worker | None


class ProcessEngine:
    """Implements `ChatEngine`. A dead worker is one `Failed`; the next message restarts it."""

    def __init__(self, options: EngineOptions) -> None:
        self._options = options
        self._worker: Worker | None = None
        self._wanted: Wanted = (None, None)  # what the newest load was asked for
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
            begun = self._begin((target, draft))
        yield from self._go_on(begun)

    def stream(self, request: ChatRequest, cancel: Cancel) -> Iterator[Event]:
        """See `ChatEngine.stream`; waits for a load under way, restarts a dead worker."""
        worker = yield from self._find_worker(cancel)
        if worker is None:
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

    def forget(self, conversation: str) -> None:
        """Done here, on the files: the worker sees it, whatever it does now."""
        forget(self._options.data_dir, conversation)

    def unload(self) -> None:
        """End the worker: that is what returns all memory. A message loads the pair again."""
        with self._lock:
            if self._closed:
                return
            self._loads += 1
            worker, self._worker = self._worker, None
            self._settled.set()
            self._note(Status("unloaded"))
        if worker:
            worker.end()

    def status(self) -> Status:
        """Answered here, at once; "ready" only while the worker lives."""
        status, worker = self._status, self._worker
        if status.state == "ready" and worker is not None and not worker.alive:
            status = replace(status, state="failed", error=ErrorInfo.of(worker.death(0)))
        return replace(status, queue=self._running)

    def close(self) -> None:
        """End the worker; streams under way end in `Failed`, and nothing is started any more."""
        with self._lock:
            self._closed = True
            self._loads += 1
            worker, self._worker = self._worker, None
            self._settled.set()
            self._note(Status("failed", error=ErrorInfo.of(_closed())))
        if worker:
            worker.end()

    def _begin(self, wanted: Wanted) -> _Load:
        """Supersede every older load; the caller holds the lock."""
        if self._closed:
            return _Load(0, wanted, None)
        self._loads += 1
        old, self._worker = self._worker, None
        self._wanted = wanted
        self._settled.clear()
        self._note(Status("loading", phase=Phase("starting")))
        return _Load(self._loads, wanted, old)

    def _go_on(self, begun: _Load) -> Iterator[LoadEvent]:
        """Load what was begun. Ends in one `Loaded` or `Failed`, unless it is closed before."""
        over = False
        try:
            for event in self._load_in(begun):
                over = not isinstance(event, Phase)
                if begun.number == self._loads:
                    self._note(_status_after(event))
                if over:
                    self._settle(begun, over)  # before the yield: whoever reads it may ask at once
                yield event
        finally:
            self._settle(begun, over)

    def _load_in(self, begun: _Load) -> Iterator[LoadEvent]:
        worker = None
        try:
            if begun.old:
                begun.old.end()  # before a yield, where this generator may be closed
            yield Phase("starting")
            if not self._closed:
                worker = Worker(self._options)
            with self._lock:
                newest = begun.number == self._loads and not self._closed
                if newest:
                    self._worker = worker
            if worker and newest:
                yield from worker.call("load", begun.wanted, NeverCancel())
                return
            if worker:
                worker.end()
            yield Failed(ErrorInfo.of(self._why(worker, EngineError("It was superseded."))))
        except Exception as error:  # a process that does not start is an event like any other
            yield Failed(ErrorInfo.of(self._why(worker, error)))

    def _settle(self, begun: _Load, over: bool) -> None:
        """No load is under way any more; one that was closed before its end leaves no worker."""
        with self._lock:
            if begun.number != self._loads:
                return
            self._settled.set()
            if over:
                return
            worker, self._worker = self._worker, None
            stopped = EngineError(
                "The load was stopped.", "Choose a model, or send a message to load it."
            )
            self._note(Status("failed", error=ErrorInfo.of(stopped)))
        if worker:
            worker.end()

    def _find_worker(self, cancel: Cancel) -> Generator[Event, None, Worker | None]:
        """A live worker, started where there is none; None when that already ended the reply."""
        events: queue.SimpleQueue[LoadEvent] | None = None
        said = ""
        while True:
            if cancel.is_set() or self._closed:
                yield Finished("cancelled", Metrics())
                return None
            if events is None:
                if not self._settled.wait(_POLL):
                    continue
                with self._lock:
                    worker = self._worker
                    if worker is not None and worker.alive:
                        return worker
                    if self._closed or not self._settled.is_set():
                        continue
                    begun = self._begin(self._wanted)
                events = _in_thread(self._go_on(begun))
                yield Notice("The engine is starting again.")
            try:
                event = events.get(timeout=_POLL)
            except queue.Empty:
                continue
            if isinstance(event, Failed):
                yield event
                return None
            if isinstance(event, Loaded):
                events = None
            elif (text := _shown(event)) != said:
                said = text
                yield Notice(text)

    def _note(self, status: Status) -> None:
        self._status = replace(status, versions=self._status.versions)

    def _why(self, worker: Worker | None, error: Exception) -> Exception:
        """A worker we ended ourselves did not crash."""
        if self._closed:
            return _closed()
        if worker is not self._worker:
            return EngineError("The engine was replaced in the middle of this.", "Try again.")
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


def _in_thread(events: Iterator[LoadEvent]) -> queue.SimpleQueue[LoadEvent]:
    """A load that goes on by itself, whatever becomes of the message that wanted it."""
    seen = queue.SimpleQueue[LoadEvent]()

    def work() -> None:
        for event in events:
            seen.put(event)

    threading.Thread(target=work, daemon=True).start()
    return seen


def _shown(phase: Phase) -> str:
    return f"The engine is starting again: {phase.name} {phase.model}".rstrip() + "."


def _closed() -> EngineError:
    return EngineError("The engine was closed.", "Start the program again.")
