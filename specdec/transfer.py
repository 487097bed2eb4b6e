"""Bytes on their way: progress with a rate, cancel, and room on the disk. Knows no source."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from specdec.errors import SourceError
from specdec.memory import size_text
from specdec.pair import Phase

Progress = Callable[[Phase], None]
Cancelled = Callable[[], bool]


class Meter:
    """Reports at most five times a second; the rate is over the last few seconds."""

    def __init__(self, model: str, total: int, progress: Progress, cancelled: Cancelled) -> None:
        self._model, self._total = model, total
        self._progress, self._cancelled = progress, cancelled
        self._seen: list[tuple[float, int]] = []
        self._last = 0.0

    def __call__(self, done: int, detail: str) -> None:
        """`done` bytes are here. Raises SourceError when the user cancelled."""
        if self._cancelled():
            raise SourceError(
                f"Fetching {self._model} was cancelled.", "What is here is kept for the next try."
            )
        now = time.monotonic()
        if done < self._total and now - self._last < 0.2:
            return
        self._last = now
        self._seen = [(t, n) for t, n in self._seen if now - t < 4 and n <= done] + [(now, done)]
        start, before = self._seen[0]
        rate = (done - before) / (now - start) if now > start else 0.0
        total = max(self._total, done)
        self._progress(Phase("fetching", self._model, detail, done, total, rate))


def check_disk(folder: Path, need: int, what: str) -> None:
    """Raises SourceError when `need` bytes do not fit on the disk of `folder`."""
    free = shutil.disk_usage(folder).free
    if need > free:
        raise SourceError(
            f"{what} needs {size_text(need)} of disk, {size_text(free)} free.",
            f"Free some space for {folder}, or choose another data folder with --data-dir.",
        )
