"""A process that fetches one model, or checks its files, and its parent's handle on it.

A process of its own: unpacking needs torch and gives its memory back only by ending, and a fetch
that hangs can be ended at any byte, since every fetch goes on where one was cut. Imports no torch
before it unpacks.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal

from specdec.failure import ErrorInfo, Failed
from specdec.integrity import Integrity, check_files, drop_broken
from specdec.pair import Phase
from specdec.persistent import fetch_model
from specdec.registry import load_registry
from specdec.sources import Store
from specdec.torch_env import prepare
from specdec.worker import children, kill_all

Work = Literal["fetch", "check", "mend"]

PATIENCE = 1.0
"""Seconds a fetch may take to stop by itself before it is killed; pip in it is killed then too."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Errand:
    """What one process is to do. "mend" checks, and fetches what is broken."""

    data_dir: Path
    model: str
    work: Work = "fetch"
    offline: bool = False


@dataclass(frozen=True, slots=True)
class Carried:
    """It is done; `found` is what a check found."""

    found: Integrity | None = None


Told = Phase | Carried | Failed


class Carrier:
    """One errand under way."""

    def __init__(self, errand: Errand) -> None:
        """Starts the process. Raises OSError where there can be none."""
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self.process = context.Process(target=carry, args=(theirs, errand), daemon=True)
        self.process.start()
        theirs.close()

    def events(self) -> Iterator[Told]:
        """Phases, then exactly one `Carried` or `Failed`, also when the process is killed."""
        while True:
            try:
                told: Told = self._pipe.recv()
            except (EOFError, OSError):
                self.process.join(1.0)
                yield Failed(ErrorInfo("SourceError", *_death(self.process.exitcode)))
                return
            yield told
            if not isinstance(told, Phase):
                self.process.join(PATIENCE)
                return

    def stop(self) -> None:
        """Ask it to stop; kill it, and what it started, where it does not. What came is kept."""
        try:
            self._pipe.send("stop")
        except OSError:  # it is gone already
            return
        self.process.join(PATIENCE)
        if self.process.is_alive() and self.process.pid is not None:
            left = children(self.process.pid)
            self.process.kill()
            kill_all(left)
            self.process.join(PATIENCE)


def _death(code: int | None) -> tuple[str, str]:
    how = "" if code is None else f" with exit code {code}"
    why = " (killed, perhaps for memory)" if code in (-9, 137) else ""
    return (
        f"The process that fetches ended{how}{why}.",
        "What came is kept: resume it. Its log is logs/fetch.log.",
    )


def carry(pipe: Connection, errand: Errand) -> None:
    """Entry point of the process; it also ends when its parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the group; the parent ends us
    _log_to_file(errand.data_dir)
    if hasattr(os, "nice"):
        os.nice(10)  # replies come first
    prepare()
    stopped = threading.Event()
    threading.Thread(target=_listen, args=(pipe, stopped), daemon=True).start()
    try:
        pipe.send(_do(errand, pipe.send, stopped))
    except Exception as error:  # crosses the pipe as data, so the page can show it
        _log.exception("%s of %s failed", errand.work, errand.model)
        pipe.send(Failed(ErrorInfo.of(error)))


def _do(errand: Errand, show: Callable[[Phase], None], stopped: threading.Event) -> Carried:
    store = Store(errand.data_dir, errand.offline)
    entry = load_registry(errand.data_dir).get(errand.model)
    found = None
    if errand.work != "fetch":
        found = check_files(store, entry, show, stopped.is_set)
        if errand.work == "check" or not found.broken:
            return Carried(found)
        drop_broken(store, entry, found)
    fetch_model(store, entry, show, stopped.is_set)
    return Carried()


def _listen(pipe: Connection, stopped: threading.Event) -> None:
    try:
        pipe.recv()
        stopped.set()
        pipe.recv()
    except (EOFError, OSError):
        kill_all(children(os.getpid()))  # pip
        os._exit(1)


def _log_to_file(data_dir: Path) -> None:
    """The terminal belongs to the parent. No token is ever in it: nothing here names one."""
    folder = data_dir / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / "fetch.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(name)s %(message)s"
    )
    logging.getLogger("httpx").setLevel(logging.WARNING)  # addresses may be signed
