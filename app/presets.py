"""Presets as a tab uses them: the built-in ones, and the owner's own. Knows no page, no engine."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from pydantic import ValidationError

from app.chats import owner_only
from app.desk import Options
from app.effective import name_of
from app.preset_file import FIRST, Change, Preset, PresetFile, read_presets, where
from app.session import Session
from app.settings import SamplingSettings
from app.words import tr
from specdec.errors import SettingError

BUILT_IN = (
    Preset(name=FIRST),
    Preset(name="Exact and repeatable", sampling=SamplingSettings(temperature=0)),
    Preset(name="Creative", sampling=SamplingSettings(temperature=1.1, min_p=0.05)),
)
"""They leave the system prompt alone, and cannot be changed or deleted."""


class Presets:
    """Every method may be called from any thread. What changes something is the owner's only."""

    def __init__(self, path: Path) -> None:
        self._file = PresetFile(path)
        self._lock = threading.Lock()

    @property
    def notice(self) -> str:
        """What went wrong with the file at start-up."""
        return self._file.notice

    def list(self, session: Session) -> tuple[Preset, ...]:
        """The built-in ones first; a guest has no others."""
        return BUILT_IN if session.role == "guest" else (*BUILT_IN, *self._file.presets)

    def find(self, session: Session, name: str) -> Preset:
        """Raises SettingError when there is none of that name."""
        found = _named(self.list(session), name)
        if found is None:
            raise SettingError(
                tr("There is no preset {name}.", name=repr(name)), tr("Choose one from the menu.")
            )
        return found

    def chosen(self, session: Session) -> str:
        """The name the menu shows."""
        found = None if session.role == "guest" else self._file.chosen
        return found if found and _named(self.list(session), found) else FIRST

    def choose(self, session: Session, name: str) -> Preset:
        """Remembers the owner's choice. Raises SettingError."""
        found = self.find(session, name)
        if session.role == "owner" and self._file.chosen != found.name:
            with self._lock:
                self._file.save(self._file.presets, found.name)
        return found

    def save(self, session: Session, name: str, options: Options) -> Change:
        """Keep these settings under a name, in place of what it held. Raises SettingError."""
        owner_only(session)
        made = preset_of(name, options)
        _not_built_in(made.name)
        with self._lock:
            before = _named(self._file.presets, made.name)
            self._file.save(_put(self._file.presets, before, made), made.name)
        return {made.name: None} if before is None else {made.name: None, before.name: before}

    def rename(self, session: Session, name: str, new: str) -> Change:
        """Raises SettingError for a built-in preset, and for a name that is taken."""
        owner_only(session)
        _not_built_in(name)
        with self._lock:
            before = self.find(session, name)
            made = _checked({**before.model_dump(), "name": new})
            _not_built_in(made.name)
            if _named(self._file.presets, made.name) not in (None, before):
                raise SettingError(
                    tr("There is a preset “{name}” already.", name=made.name),
                    tr("Choose another name."),
                )
            self._file.save(_put(self._file.presets, before, made), made.name)
        return {made.name: None, before.name: before}

    def delete(self, session: Session, name: str) -> Change:
        """Raises SettingError for a built-in preset."""
        owner_only(session)
        _not_built_in(name)
        with self._lock:
            before = self.find(session, name)
            self._file.save([p for p in self._file.presets if p != before], FIRST)
        return {before.name: before}

    def add(self, session: Session, text: str) -> Change:
        """Import a file; a name that is taken gets a number. Raises SettingError for a bad file.

        The same preset twice is the same preset.
        """
        owner_only(session)
        new = read_presets(text)
        with self._lock:
            presets: list[Preset] = list(self._file.presets)
            change: dict[str, Preset | None] = {}
            for preset in new:
                made = _free(preset, (*BUILT_IN, *presets))
                if made is not None:
                    presets.append(made)
                    change[made.name] = None
            self._file.save(presets, self._file.chosen)
        return change

    def put_back(self, session: Session, change: Change) -> None:
        """Undo what gave this change. Raises SettingError."""
        owner_only(session)
        with self._lock:
            presets: Sequence[Preset] = self._file.presets
            for name, before in change.items():
                now = _named(presets, name)
                if before is not None:
                    presets = _put(presets, now, before)
                else:
                    presets = [p for p in presets if p != now]
            kept = [name for name, before in change.items() if before is not None]
            self._file.save(presets, kept[-1] if kept else self._file.chosen)


def preset_of(name: str, options: Options) -> Preset:
    """Raises SettingError for a name that cannot be kept."""
    return _checked(
        {
            "name": name,
            "system": options.system,
            "sampling": asdict(options.sampling),
            "rule": options.rule,
            "k": options.k,
        }
    )


def applied(preset: Preset, now: Options) -> Options:
    """The options with this preset; mode stays, and where it has no system prompt that stays."""
    system = now.system if preset.system is None else preset.system
    sampling = preset.sampling.to_sampling()
    return replace(now, sampling=sampling, rule=preset.rule, k=preset.k, system=system)


def differences(preset: Preset, now: Options) -> list[str]:
    """What is set otherwise than the preset says, in words."""
    wanted = applied(preset, now)
    found = [tr("system prompt")] if wanted.system != now.system else []
    ours, theirs = asdict(now.sampling), asdict(wanted.sampling)
    found += [name_of(n) for n in ours if ours[n] != theirs[n]]
    found += [tr("rule")] if wanted.rule != now.rule else []
    return found + ([tr("longest draft")] if wanted.k != now.k else [])


def is_built_in(name: str) -> bool:
    return _named(BUILT_IN, name) is not None


def _checked(values: Mapping[str, object]) -> Preset:
    try:
        return Preset.model_validate(values)
    except ValidationError as error:
        raise SettingError(
            tr("This preset cannot be kept: {why}.", why=where(error)),
            tr("Give it a name of 1 to 60 characters."),
        ) from error


def _named(presets: Sequence[Preset], name: str) -> Preset | None:
    return next((p for p in presets if p.name.casefold() == name.casefold()), None)


def _not_built_in(name: str) -> None:
    if is_built_in(name):
        raise SettingError(
            tr("“{name}” is built in and stays as it is.", name=name), tr("Choose another name.")
        )


def _put(presets: Sequence[Preset], old: Preset | None, new: Preset) -> tuple[Preset, ...]:
    """In the same place of the menu."""
    if old is None:
        return (*presets, new)
    return tuple(new if preset == old else preset for preset in presets)


def _free(preset: Preset, taken: Sequence[Preset]) -> Preset | None:
    """The preset under a name nobody has; None when it is there already."""
    name, number = preset.name, 2
    while (other := _named(taken, name)) is not None:
        if other.model_copy(update={"name": preset.name}) == preset:
            return None
        name = f"{preset.name[:50].rstrip()} ({number})"
        number += 1
    return preset.model_copy(update={"name": name})
