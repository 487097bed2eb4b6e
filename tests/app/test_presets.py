"""Presets: kept whole, never lost, and only the owner's to change."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.desk import Options
from app.preset_file import MAX_FILE, PresetFile, read_presets, to_json
from app.presets import BUILT_IN, Presets, applied, differences, preset_of
from app.session import Session
from specdec.contract import Sampling
from specdec.errors import SettingError
from tests.app.desk_kit import Kit

MINE = Options(Sampling(temperature=0.3, stop=("END",)), rule="reject", k=2, system="Be brief.")


@pytest.fixture
def owner() -> Session:
    return Session("tab", "owner")


@pytest.fixture
def presets(tmp_path: Path) -> Presets:
    return Presets(tmp_path / "presets.json")


def names(presets: Presets, session: Session) -> list[str]:
    return [preset.name for preset in presets.list(session)][len(BUILT_IN) :]


def test_what_is_saved_comes_back_and_stays_chosen(presets: Presets, owner: Session) -> None:
    presets.save(owner, "  My   way ", MINE)
    again = Presets(presets._file.path)
    assert applied(again.find(owner, "my way"), Options(mode="standard")) == replace(
        MINE, mode="standard"
    )
    assert again.chosen(owner) == "My way"
    again.choose(owner, "Creative")
    assert Presets(presets._file.path).chosen(owner) == "Creative"


def test_the_built_in_ones_are_what_they_say_and_leave_the_system_prompt_alone() -> None:
    balanced, exact, creative = BUILT_IN
    assert applied(balanced, Options()) == Options()
    assert applied(exact, MINE).sampling.temperature == 0
    assert applied(creative, MINE).sampling.temperature > Sampling().temperature
    assert {applied(preset, MINE).system for preset in BUILT_IN} == {"Be brief."}


@pytest.mark.parametrize("name", ["Balanced", "creative", " Exact and  repeatable"])
def test_a_built_in_preset_stays_as_it_is(presets: Presets, owner: Session, name: str) -> None:
    presets.save(owner, "mine", MINE)
    for act in (
        lambda: presets.save(owner, name, MINE),
        lambda: presets.rename(owner, "mine", name),
        lambda: presets.rename(owner, " ".join(name.split()), "other"),
        lambda: presets.delete(owner, " ".join(name.split())),
    ):
        with pytest.raises(SettingError, match="built in"):
            act()
    assert names(presets, owner) == ["mine"]


@pytest.mark.parametrize("name", ["", "   ", "x" * 61])
def test_a_name_nobody_could_read_is_refused(presets: Presets, owner: Session, name: str) -> None:
    with pytest.raises(SettingError, match="cannot be kept: name"):
        presets.save(owner, name, MINE)


def test_every_act_can_be_undone(presets: Presets, owner: Session) -> None:
    presets.save(owner, "mine", MINE)
    before = presets.list(owner)
    acts: list[Callable[[], Any]] = [
        lambda: presets.save(owner, "mine", Options()),
        lambda: presets.save(owner, "MINE", Options()),
        lambda: presets.rename(owner, "mine", "yours"),
        lambda: presets.rename(owner, "mine", "Mine"),
        lambda: presets.delete(owner, "mine"),
        lambda: presets.save(owner, "another", MINE),
        lambda: presets.add(owner, to_json([preset_of("third", MINE), preset_of("4", MINE)])),
    ]
    for act in acts:
        change = act()
        assert presets.list(owner) != before
        presets.put_back(owner, change)
        assert presets.list(owner) == before
    assert Presets(presets._file.path).list(owner) == before


def test_a_name_that_is_taken_is_not_taken_by_renaming(presets: Presets, owner: Session) -> None:
    presets.save(owner, "one", MINE)
    presets.save(owner, "two", Options())
    with pytest.raises(SettingError, match="“one” already"):
        presets.rename(owner, "two", "one")
    assert names(presets, owner) == ["one", "two"]


def test_an_import_loses_neither_of_two_with_one_name(presets: Presets, owner: Session) -> None:
    presets.save(owner, "mine", MINE)
    theirs = preset_of("Mine", Options(system="Be long."))
    file = to_json([theirs, preset_of("mine", MINE), BUILT_IN[0], preset_of("Balanced", MINE)])
    assert list(presets.add(owner, file)) == ["Mine (2)", "Balanced (2)"]
    assert presets.find(owner, "mine (2)").system == "Be long."
    assert presets.find(owner, "mine").system == "Be brief."
    assert presets.add(owner, file) == {}


def test_export_and_import_are_each_other_s_inverse(presets: Presets, owner: Session) -> None:
    presets.save(owner, "Grüße ✓", MINE)
    text = to_json(presets.list(owner))
    assert read_presets(text) == presets.list(owner)
    row = json.loads(text)
    assert (row["format"], row["version"], "chosen" in row) == ("specdec-presets", 1, False)


HEAD = '"format": "specdec-presets", "version": 1'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "JSON"),
        ("\x00\xff", "JSON"),
        ("[]", "the file"),
        ("{}", "format"),
        ('{"format": "specdec-chat 1", "version": 1, "presets": []}', "format"),
        ('{"format": "specdec-presets", "version": 2, "presets": []}', "another version"),
        (f'{{{HEAD}, "presets": [{{"name": ""}}]}}', "presets.0.name"),
        (f'{{{HEAD}, "presets": [{{"name": "x", "k": 99}}]}}', "presets.0.k"),
        (f'{{{HEAD}, "presets": [{{"name": "x", "sampling": {{"temperature": NaN}}}}]}}', "temp"),
        (f'{{{HEAD}, "presets": [{{"name": "x", "sampling": {{"top_p": 7}}}}]}}', "top-p is 7"),
        (f'{{{HEAD}, "presets": [{{"name": "x", "api_key": 1}}]}}', "api_key"),
        (" " * (MAX_FILE + 1), "larger than 1 MB"),
    ],
)
def test_a_bad_file_is_one_line_and_changes_nothing(
    presets: Presets, owner: Session, text: str, told: str
) -> None:
    presets.save(owner, "mine", MINE)
    with pytest.raises(SettingError, match=told) as error:
        presets.add(owner, text)
    assert "\n" not in str(error.value)
    assert names(presets, owner) == ["mine"]


def test_a_damaged_file_is_kept_aside_and_the_program_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "presets.json"
    path.write_text('{"presets": "half a fi')
    file = PresetFile(path)
    (kept,) = tmp_path.glob("presets.json.damaged-*")
    assert kept.read_text() == '{"presets": "half a fi'
    assert str(kept) in file.notice
    file.save([preset_of("new", MINE)], "new")
    assert PresetFile(path).notice == ""


def test_a_damaged_file_that_cannot_be_moved_is_never_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "presets.json"
    path.write_text("damaged")

    def refuse(self: Path, target: Path) -> Path:
        raise PermissionError("it is open elsewhere")

    with monkeypatch.context() as closed:
        closed.setattr(Path, "replace", refuse)
        file = PresetFile(path)
    with pytest.raises(SettingError, match="open elsewhere"):
        file.save([], "x")
    assert path.read_text() == "damaged"


def test_what_cannot_be_written_is_not_kept_in_memory_either(
    tmp_path: Path, owner: Session
) -> None:
    (tmp_path / "in the way").write_text("")
    presets = Presets(tmp_path / "in the way" / "presets.json")
    with pytest.raises(SettingError, match=r"cannot be (written|read)"):
        presets.save(owner, "mine", MINE)
    assert names(presets, owner) == []


def test_differences_are_said_in_words() -> None:
    balanced = BUILT_IN[0]
    assert differences(balanced, Options(system="anything")) == []
    assert differences(balanced, MINE) == ["temperature", "stop strings", "rule", "longest draft"]
    assert differences(preset_of("x", MINE), replace(MINE, system="")) == ["system prompt"]


def test_a_guest_has_the_built_in_ones_and_changes_nothing(kit: Kit) -> None:
    presets, guest = kit.controller.presets, kit.guest()
    change = presets.save(kit.owner(), "secret", MINE)
    assert presets.list(guest) == BUILT_IN
    assert presets.choose(guest, "Creative").name == "Creative"
    assert presets.chosen(kit.owner()) == "secret"
    for act in (
        lambda: presets.find(guest, "secret"),
        lambda: presets.save(guest, "secret", Options()),
        lambda: presets.rename(guest, "secret", "mine"),
        lambda: presets.delete(guest, "secret"),
        lambda: presets.add(guest, to_json(BUILT_IN)),
        lambda: presets.put_back(guest, change),
    ):
        with pytest.raises(SettingError):
            act()
    assert presets.find(kit.owner(), "secret").system == "Be brief."
