"""Presets on disk: one JSON file beside the settings, in the form that is exported and imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from app.settings import SamplingSettings
from app.whole_file import set_aside, write_whole
from app.words import tr
from specdec.errors import SettingError
from specdec.request import MAX_K, Rule

MAX_NAME = 60
MOST = 200
MAX_FILE = 1_000_000
"""Bytes of an imported file."""
FIRST = "Balanced"
"""The built-in preset that equals the defaults."""


def plain_name(name: object) -> object:
    """One line, without spaces at its ends."""
    return " ".join(name.split()) if isinstance(name, str) else name


Name = Annotated[str, BeforeValidator(plain_name), Field(min_length=1, max_length=MAX_NAME)]


class Preset(BaseModel):
    """How replies are made, under a name. `system` None leaves the system prompt as it is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name
    system: str | None = None
    sampling: SamplingSettings = Field(default_factory=SamplingSettings)
    rule: Rule = "match"
    k: int | None = Field(default=None, ge=0, le=MAX_K)


Change = Mapping[str, Preset | None]
"""What these names held before something was changed; None: nothing. Putting it back undoes it."""


class Book(BaseModel):
    """The whole file. `chosen` is the preset the menu showed last; exports leave it out."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["specdec-presets"]
    version: Literal[1]
    presets: Annotated[tuple[Preset, ...], Field(max_length=MOST)]
    chosen: str = FIRST


def to_json(presets: Sequence[Preset], chosen: str | None = None) -> str:
    """A file of these presets."""
    book = Book(format="specdec-presets", version=1, presets=tuple(presets), chosen=chosen or "")
    return book.model_dump_json(indent=1, exclude={"chosen"} if chosen is None else None) + "\n"


def read_presets(text: str | bytes) -> tuple[Preset, ...]:
    """Raises SettingError, in one line, for a file that `to_json` did not write."""
    if len(text) > MAX_FILE:
        raise SettingError(tr("The file is larger than 1 MB."), tr("Choose a file of presets."))
    try:
        return Book.model_validate_json(text).presets
    except ValidationError as error:
        raise SettingError(
            tr("This is no file of presets: {why}.", why=where(error)),
            tr("Choose a .json file that was exported here. Nothing was changed."),
        ) from error


def where(error: ValidationError) -> str:
    """The first fault, with its place."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"])) or tr("the file")
    if place == "version":
        return tr("version: it was written by another version of this program")
    return f"{place}: {first['msg']}"


class PresetFile:
    """Reads once, writes whole. `notice` says what went wrong while reading."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notice = ""
        self._in_the_way = False  # a damaged file that could not be moved: never written over
        self.chosen = FIRST
        self.presets = self._read()

    def save(self, presets: Sequence[Preset], chosen: str) -> None:
        """Raises SettingError when the file cannot be written; the old one then stays."""
        if self._in_the_way:
            raise SettingError(self.notice, tr("Move that file away and start the program again."))
        if len(presets) > MOST:
            raise SettingError(
                tr("There are {n} presets.", n=len(presets)),
                tr("At most {n} are kept.", n=MOST),
            )
        write_whole(self.path, to_json(presets, chosen), "file of presets")
        self.presets, self.chosen = tuple(presets), chosen

    def _read(self) -> tuple[Preset, ...]:
        try:
            book = Book.model_validate_json(self.path.read_bytes())
        except FileNotFoundError:
            return ()
        except OSError as error:
            self._in_the_way = True
            self.notice = tr(
                "The presets in {path} cannot be read ({error}).", path=self.path, error=error
            )
            return ()
        except ValidationError as error:
            self._set_aside(error)
            return ()
        self.chosen = book.chosen
        return book.presets

    def _set_aside(self, error: ValidationError) -> None:
        said = tr("The presets were not valid ({why}).", why=where(error))
        try:
            self.notice = f"{said} {tr('Kept as {path}.', path=set_aside(self.path))}"
        except OSError as problem:
            self._in_the_way = True
            self.notice = (
                f"{said} {tr('{path} cannot be moved: {why}.', path=self.path, why=problem)}"
            )
