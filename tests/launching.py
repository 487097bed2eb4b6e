"""Starts the program in a process of its own and reads what it prints. For tests."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil

ROOT = Path(__file__).resolve().parents[1]
FAKE = ("-m", "tests.app.launch_fake")


class Program:
    """A started program; its lines come through a queue, so that no read can hang a test."""

    def __init__(self, command: Sequence[str], cwd: Path = ROOT, path: Path | None = ROOT) -> None:
        self.begun = time.monotonic()
        self.lines: list[str] = []
        self._queue: queue.Queue[str | None] = queue.Queue()
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**os.environ, "PYTHONUNBUFFERED": "1"}
            | ({"PYTHONPATH": str(path)} if path else {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def wait_for(self, pattern: str, timeout: float = 60) -> re.Match[str]:
        """The first line, seen or to come, that matches; fails with all lines otherwise."""
        for line in self.lines:
            if match := re.search(pattern, line):
                return match
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            try:
                line = self._queue.get(timeout=0.2)
            except queue.Empty:
                continue
            if line is None:
                break
            self.lines.append(line)
            if match := re.search(pattern, line):
                return match
        raise AssertionError(f"{pattern!r} was not printed in:\n" + "\n".join(self.lines))

    @property
    def url(self) -> str:
        return self.wait_for(r"Chat: (http\S+)")[1]

    def health(self) -> dict[str, object]:
        answer: dict[str, object] = httpx.get(f"{self.url}/health", timeout=10).json()
        return answer

    def wait_state(self, state: str, timeout: float = 60) -> None:
        end = time.monotonic() + timeout
        while (found := self.health())["state"] != state:
            assert time.monotonic() < end, f"still {found}"
            time.sleep(0.1)

    def end(self, number: int = signal.SIGINT) -> float:
        """Signal it as a terminal does (the whole group for Ctrl-C); seconds until it is gone."""
        family = [self.process.pid, *(p.pid for p in self.children())]
        begun = time.monotonic()
        if number == signal.SIGINT:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)
        self.process.wait(20)
        took = time.monotonic() - begun
        end = time.monotonic() + 0.5
        while left := [p for p in map(_process, family) if p]:
            assert time.monotonic() < end, f"left behind: {left}"
            time.sleep(0.02)
        return took

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._queue.put(line.rstrip("\n"))
        self._queue.put(None)


def _process(pid: int) -> psutil.Process | None:
    """The process while it runs; one that only nobody has reaped is gone."""
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process
    except psutil.NoSuchProcess:
        return None


@contextmanager
def program(
    *arguments: str, python: str = sys.executable, cwd: Path = ROOT, path: Path | None = ROOT
) -> Iterator[Program]:
    """`python *arguments`; whatever is left of it is killed at the end."""
    started = Program([python, *arguments], cwd, path)
    try:
        yield started
    finally:
        family = [_process(started.process.pid)]
        if started.process.poll() is None:
            family += started.children()
        for process in family:
            if process is not None:
                process.kill()
        started.process.wait(10)
