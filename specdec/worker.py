"""The engine's side of the pipe: runs `LocalEngine` in its own process and answers calls.

Knows the contract and the pipe; imports the engine (and torch) only after it has started.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import psutil

from specdec.contract import ErrorInfo
from specdec.options import EngineOptions
from specdec.torch_env import prepare

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Call:
    """Parent -> worker: run `method` with `args`; generator results come back one `Item` each."""

    id: int
    method: str
    args: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class CancelCall:
    """Parent -> worker: set the cancel flag of call `id`."""

    id: int


@dataclass(frozen=True, slots=True)
class Bye:
    """Parent -> worker: leave at once."""


@dataclass(frozen=True, slots=True)
class Item:
    """Worker -> parent: one event of call `id`."""

    id: int
    value: Any


@dataclass(frozen=True, slots=True)
class Done:
    """Worker -> parent: call `id` is over; `error` when it raised."""

    id: int
    error: ErrorInfo | None = None


def serve(pipe: Connection, options: EngineOptions) -> None:
    """Entry point of the spawned process; ends it on `Bye` or when the parent dies."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches the whole group; the parent ends us
    _log_to_file(options)
    calls = _Calls(pipe, options)
    try:
        while True:
            message = pipe.recv()
            if isinstance(message, Call):
                calls.start(message)
            elif isinstance(message, CancelCall):
                calls.cancel(message.id)
            else:
                break
    except (EOFError, OSError):
        _log.info("the parent is gone")
    kill_all(children(os.getpid()))  # pip, in the middle of a fetch
    os._exit(0)  # nothing is worth waiting for, least of all a running kernel


def children(pid: int) -> list[psutil.Process]:
    """Every process below `pid`; none when it is gone."""
    try:
        return list(psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def kill_all(processes: list[psutil.Process]) -> None:
    """Kill each one that still runs."""
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue


class _Calls:
    def __init__(self, pipe: Connection, options: EngineOptions) -> None:
        self._pipe = pipe
        self._options = options
        self._engine: Any = None
        self._send_lock = threading.Lock()
        self._engine_lock = threading.Lock()
        self._flags: dict[int, threading.Event] = {}

    def start(self, call: Call) -> None:
        self._flags[call.id] = threading.Event()
        threading.Thread(target=self._run, args=(call,), daemon=True).start()

    def cancel(self, number: int) -> None:
        if flag := self._flags.get(number):
            flag.set()

    def _run(self, call: Call) -> None:
        error = None
        try:
            for value in self._values(call):
                self._send(Item(call.id, value))
        except Exception as problem:  # crosses the pipe as data, so the page can show it
            _log.exception("%s failed", call.method)
            error = ErrorInfo.of(problem)
        self._flags.pop(call.id, None)
        self._send(Done(call.id, error))

    def _values(self, call: Call) -> Iterator[Any]:
        engine = self._start_engine()
        methods: dict[str, Callable[[], Iterator[Any]]] = {
            "load": lambda: engine.load(*call.args),
            "stream": lambda: engine.stream(*call.args, self._flags[call.id]),
            "count_tokens": lambda: iter([engine.count_tokens(*call.args)]),
            "verify": lambda: iter([engine.verify(*call.args, self._flags[call.id])]),
        }
        yield from methods[call.method]()

    def _start_engine(self) -> Any:
        with self._engine_lock:
            if self._engine is None:
                prepare()
                from specdec.engine import LocalEngine  # torch is imported here, not before

                self._engine = LocalEngine(self._options)
            return self._engine

    def _send(self, message: Item | Done) -> None:
        with self._send_lock:
            self._pipe.send(message)


def _log_to_file(options: EngineOptions) -> None:
    """Everything this process prints goes to engine.log; the terminal belongs to the parent.

    The log before is kept as engine.log.1: after a crash and a restart that is the one to read.
    """
    folder = options.data_dir / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "engine.log"
    if path.exists():
        path.replace(folder / "engine.log.1")
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(name)s %(message)s"
    )
