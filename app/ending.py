"""Ends the program within seconds, whatever hangs. Knows signals and closers, nothing else."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType

CLOSE_S = 4.0


class Ending:
    """Closers run in the reverse order of `add`, all together in at most `CLOSE_S` seconds."""

    def __init__(self) -> None:
        self._closers: list[Callable[[], None]] = []
        self._heard: list[int] = []  # signals this program answers to

    def add(self, closer: Callable[[], None]) -> None:
        self._closers.append(closer)

    def listen(self) -> None:
        """From now on Ctrl-C and SIGTERM raise KeyboardInterrupt in the main thread, once.

        A signal that whoever started this program told it to ignore (nohup) stays ignored.
        """
        for name in ("SIGINT", "SIGTERM", "SIGBREAK", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._caught)
                self._heard.append(number)

    def close(self) -> None:
        """Run the closers; then kill whatever child process is left."""
        thread = threading.Thread(target=self._run, name="closing", daemon=True)
        thread.start()
        thread.join(CLOSE_S)
        for child in multiprocessing.active_children():
            child.kill()
            child.join(0.5)

    def exit(self, code: int) -> None:
        """Leave now: a library's thread that never ends must not keep the program alive."""
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    def wait(self) -> None:
        """Until a signal comes."""
        while True:
            time.sleep(3600)

    def _caught(self, number: int, frame: FrameType | None) -> None:
        hangup = getattr(signal, "SIGHUP", None)
        for other in self._heard:  # a terminal that closes sends its signal twice, in no hurry
            signal.signal(other, signal.SIG_IGN if other == hangup else self._impatient)
        raise KeyboardInterrupt

    def _impatient(self, number: int, frame: FrameType | None) -> None:
        for child in multiprocessing.active_children():
            child.kill()
        os._exit(130)

    def _run(self) -> None:
        while self._closers:
            try:
                self._closers.pop()()
            except Exception:  # the others must still have their turn
                traceback.print_exc()
