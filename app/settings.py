"""The user's own settings, kept in one JSON file. Knows nothing of pages or engines.

What the command line says comes first, then this file, then the defaults.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from app.whole_file import set_aside, write_whole
from app.words import tr
from specdec.errors import SettingError
from specdec.request import MAX_K, Mode, Rule, Sampling

_DEFAULT = Sampling()
LONGEST_IDLE = 7 * 24 * 60
"""Minutes."""


class SamplingSettings(BaseModel):
    """`Sampling` as the page edits it; the ranges are checked by `Sampling` itself."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    temperature: float = _DEFAULT.temperature
    top_k: int = _DEFAULT.top_k
    top_p: float = _DEFAULT.top_p
    min_p: float = _DEFAULT.min_p
    repetition_penalty: float = _DEFAULT.repetition_penalty
    frequency_penalty: float = _DEFAULT.frequency_penalty
    presence_penalty: float = _DEFAULT.presence_penalty
    seed: int | None = _DEFAULT.seed
    max_tokens: int = _DEFAULT.max_tokens
    stop: tuple[str, ...] = _DEFAULT.stop

    def to_sampling(self) -> Sampling:
        """Raises SettingError naming the field that is out of range."""
        return Sampling(**dict(self))

    @model_validator(mode="after")
    def _in_range(self) -> SamplingSettings:
        try:
            self.to_sampling()
        except SettingError as error:
            raise ValueError(str(error)) from error
        return self


class Settings(BaseModel):
    """Everything the user may keep. `target` and `draft` are the last pair that was loaded.

    `weights` is the form of the target's weights where the command line names none.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    sampling: SamplingSettings = Field(default_factory=SamplingSettings)
    mode: Mode = "speculative"
    rule: Rule = "match"
    k: int | None = Field(default=None, ge=0, le=MAX_K)
    system: str = ""
    target: str | None = None
    draft: str | None = None
    weights: Literal["bf16", "packed", "int8"] | None = None
    idle_minutes: int | None = Field(default=None, ge=1, le=LONGEST_IDLE)  # None: never unload


class SettingsFile:
    """Reads once, writes whole and atomically. `notice` says what went wrong while reading."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notice = ""
        self.settings = self._read()

    def save(self, settings: Settings) -> None:
        """Raises SettingError when the file cannot be written; the old one then stays."""
        write_whole(self.path, settings.model_dump_json(indent=2) + "\n", "settings file")
        self.settings = settings

    def _read(self) -> Settings:
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return Settings()
        except OSError as error:
            self.notice = tr(
                "The settings file {path} cannot be read ({error}); using defaults.",
                path=self.path,
                error=error,
            )
            return Settings()
        try:
            return Settings.model_validate_json(text)
        except ValidationError as error:
            self.notice = self._set_aside(error)
            return Settings()

    def _set_aside(self, error: ValidationError) -> str:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "file"
        aside = set_aside(self.path)
        said = tr("The settings were not valid ({where}: {why}).", where=where, why=first["msg"])
        return f"{said} {tr('Kept as {path}.', path=aside)}"
