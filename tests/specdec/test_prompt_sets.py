"""Prompts by kind: one file a kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specdec import prompt_sets
from specdec.errors import SettingError


def test_every_kind_that_comes_with_the_program_has_prompts() -> None:
    kinds = prompt_sets.kinds()
    assert set(kinds) == {"code", "chat", "copying", "translation", "maths", "creative"}
    assert all(len(set(prompt_sets.load(kind))) == 8 for kind in kinds)


def test_a_file_is_a_kind(tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "b.json").write_text(json.dumps(["x"]))
    (tmp_path / "prompts" / "a.json").write_text(
        json.dumps(["y", "ä"], ensure_ascii=False), "utf-8"
    )
    assert prompt_sets.kinds(tmp_path) == ("a", "b")
    assert prompt_sets.load("a", tmp_path) == ("y", "ä")


def test_what_is_not_there_or_no_list_of_texts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="no prompts"):
        prompt_sets.kinds(tmp_path)
    (tmp_path / "prompts").mkdir()
    for bad in ("{}", "[]", '["x", 3]', '["x", " "]'):
        (tmp_path / "prompts" / "c.json").write_text(bad)
        with pytest.raises(SettingError, match="'c'"):
            prompt_sets.load("c", tmp_path)
    with pytest.raises(SettingError, match="'d'") as caught:
        prompt_sets.load("d", tmp_path)
    assert "c" in caught.value.hint
