"""Seconds spent on one head, by what they were spent on, over all the runs that worked on it.

Knows time and one small file; nothing of chats, lessons or heads.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from specdec.training.files import read_json, write_json

Phase = Literal["write", "read", "train"]

PHASES: tuple[Phase, ...] = ("write", "read", "train")


class Clock:
    """Goes on where the last run saved it. What is not told by `enter` counts as writing."""

    def __init__(
        self, file: Path, minutes: float, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._file, self._now = file, now
        had = read_json(file) or {}
        old = had.get("seconds", 0.0) if "write" not in had else 0.0  # as first versions kept it
        self._past = {phase: float(had.get(phase, 0.0)) for phase in PHASES}
        self._past["write"] += float(old)
        self._phase: Phase = "write"
        self._began = now()
        self.total = 60 * minutes

    def enter(self, phase: Phase) -> None:
        """From now on seconds are spent on this."""
        now = self._now()
        self._past[self._phase] += now - self._began
        self._phase, self._began = phase, now

    def spent_on(self, *phases: Phase) -> float:
        """Seconds so far on these together."""
        running = self._now() - self._began if self._phase in phases else 0.0
        return sum(self._past[phase] for phase in phases) + running

    @property
    def spent(self) -> float:
        """Seconds so far."""
        return self.spent_on(*PHASES)

    @property
    def trained(self) -> float:
        """The share of the time for training that is over, 0 to 1.

        What is left of the minutes is for training. So it falls where they are raised: the head is
        then as far as it would be had they been asked for from the first.
        """
        done, left = self.spent_on("train"), max(0.0, self.total - self.spent)
        return done / (done + left) if left else 1.0

    def save(self) -> None:
        """For the next run."""
        parts = {phase: round(self.spent_on(phase), 1) for phase in PHASES}
        write_json(self._file, {"seconds": round(self.spent, 1), **parts})
