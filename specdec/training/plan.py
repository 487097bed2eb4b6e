"""What `train-draft` was asked for, checked. No torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from specdec.errors import SettingError
from specdec.options import EngineOptions

VOCAB, DISK_GB, SEED = 8192, 4.0, 0


@dataclass(frozen=True, slots=True)
class Plan:
    """One of `data` and `write` is set, or both: a file, and how many chats the target writes."""

    options: EngineOptions
    target: str
    data: Path | None
    write: int | None
    minutes: float
    out: Path
    updates: int | None = None  # None = as many as the minutes give
    vocab: int = VOCAB
    disk_gb: float = DISK_GB
    seed: int = SEED
    command: str = ""  # as typed, for the card

    def __post_init__(self) -> None:
        """Raises SettingError for what cannot be done."""
        if self.data is None and self.write is None:
            raise SettingError(
                "Training text comes from the target, from a file, or from both.",
                "Name --self-generate N, --data FILE, or both.",
            )
        if self.data is not None and not self.data.is_file():
            raise SettingError(f"There is no file {self.data}.", "Check --data.")
        for name, value in (
            ("--self-generate", self.write),
            ("--minutes", self.minutes),
            ("--steps", self.updates),
            ("--vocab", self.vocab),
            ("--disk", self.disk_gb),
        ):
            if value is not None and not 0 < value < math.inf:
                raise SettingError(f"{name} is {value:g}.", "It must be a number above 0.")
        if self.out.exists() and not self.out.is_dir():
            raise SettingError(f"{self.out} is a file.", "Name a folder with --out.")
        if self.out.is_dir() and any(self.out.iterdir()) and not (self.out / "work").is_dir():
            raise SettingError(
                f"{self.out} holds something else.", "Name a new or empty folder with --out."
            )
