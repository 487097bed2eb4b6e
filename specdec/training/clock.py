"""Seconds spent on one head, over all the runs that worked on it. Knows time and one small file."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from specdec.training.files import read_json, write_json


class Clock:
    """Goes on where the last run saved it."""

    def __init__(
        self, file: Path, minutes: float, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._file, self._now = file, now
        self._before = float((read_json(file) or {}).get("seconds", 0.0))
        self._began = now()
        self.total = 60 * minutes

    @property
    def spent(self) -> float:
        """Seconds so far."""
        return self._before + self._now() - self._began

    def before(self, share: float) -> bool:
        """Whether less than this share of the minutes is spent."""
        return self.spent < share * self.total

    def save(self) -> None:
        """For the next run."""
        write_json(self._file, {"seconds": round(self.spent, 1)})
