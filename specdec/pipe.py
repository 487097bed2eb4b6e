"""The parent's side of the pipe: one spawned worker and the calls under way in it.

Knows processes and threads; nothing of models.
"""

from __future__ import annotations

import itertools
import multiprocessing
import queue
import threading
from collections.abc import Iterator
from typing import Any

from specdec.contract import Cancel
from specdec.errors import EngineError
from specdec.options import EngineOptions
from specdec.worker import Bye, Call, CancelCall, Done, Item, children, kill_all, serve

_POLL = 0.05  # seconds between looks at a cancel flag


class Worker:
    """One spawned process and the calls under way in it."""

    def __init__(self, options: EngineOptions) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, options), daemon=True)
        self.process.start()
        theirs.close()
        self._numbers = itertools.count(1)
        self._answers: dict[int, queue.SimpleQueue[Item | Done | None]] = {}
        self._lock = threading.Lock()
        self._dead = False
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def alive(self) -> bool:
        return not self._dead

    def call(self, method: str, args: tuple[Any, ...], cancel: Cancel) -> Iterator[Any]:
        """Yield the call's values. Raises EngineError when the process dies or the call raised."""
        number, answers = next(self._numbers), queue.SimpleQueue[Item | Done | None]()
        with self._lock:
            if self._dead:
                raise self.death()
            self._answers[number] = answers
            try:
                self._pipe.send(Call(number, method, args))
            except OSError:
                self._dead = True
                raise self.death() from None
        told = over = False
        try:
            while True:
                if not told and cancel.is_set():
                    told = self._tell(CancelCall(number))
                try:
                    answer = answers.get(timeout=_POLL)
                except queue.Empty:
                    continue
                if answer is None:
                    over = True
                    raise self.death()
                if isinstance(answer, Done):
                    over = True
                    if answer.error:
                        raise answer.error.revive()
                    return
                yield answer.value
        finally:
            if not over:
                self._tell(CancelCall(number))
            self._answers.pop(number, None)

    def end(self) -> None:
        """Ask the worker to leave, kill it and what it started if it does not within a second."""
        self._tell(Bye())
        self.process.join(1.0)
        if self.process.is_alive() and self.process.pid is not None:
            left = children(self.process.pid)  # asked before: orphans have another parent
            self.process.kill()
            kill_all(left)
            self.process.join(2.0)

    def _tell(self, message: CancelCall | Bye) -> bool:
        with self._lock:
            try:
                self._pipe.send(message)
            except OSError:  # it died meanwhile; the reader says so to every call
                self._dead = True
        return True

    def _read(self) -> None:
        try:
            while True:
                message = self._pipe.recv()
                if answers := self._answers.get(message.id):
                    answers.put(message)
        except (EOFError, OSError):
            with self._lock:
                self._dead = True
                waiting = list(self._answers.values())
            for answers in waiting:
                answers.put(None)

    def death(self, wait: float = 1.0) -> EngineError:
        """How a process that is not alive ended; waits up to `wait` seconds for its exit code."""
        self.process.join(wait)
        code = self.process.exitcode
        how = "" if code is None else f" with exit code {code}"
        why = " (killed, perhaps for memory)" if code in (-9, 137) else ""
        return EngineError(
            f"The engine process ended{how}{why}.",
            "Send the message again: the engine starts anew. Its log is logs/engine.log.",
        )
