"""Settings: kept whole, never lost, one set of defaults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from app.settings import SamplingSettings, Settings, SettingsFile
from specdec.errors import SettingError
from specdec.options import WEIGHTS
from specdec.request import Sampling


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "settings.json"
    file = SettingsFile(path)
    assert file.settings == Settings()
    wanted = Settings(
        sampling=SamplingSettings(temperature=0, seed=2**60, stop=("END",)),
        mode="standard",
        system="Be brief.",
        target="smollm2",
        draft="ngram",
        k=4,
    )
    file.save(wanted)
    assert SettingsFile(path).settings == wanted
    assert file.settings == wanted
    assert [p.name for p in path.parent.iterdir()] == ["settings.json"]


def test_the_defaults_are_the_engine_s_own() -> None:
    """D11: one place for defaults, and nothing shared that a change could reach."""
    assert SamplingSettings().to_sampling() == Sampling()
    assert Settings().sampling is not Settings().sampling or Settings.model_config["frozen"]
    with pytest.raises(ValidationError):
        Settings().sampling.temperature = 1.0  # type: ignore[misc]


def test_no_option_is_missing() -> None:
    assert set(SamplingSettings.model_fields) == set(Sampling.__dataclass_fields__)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("{ not json", "file"),
        ('{"sampling": {"temperature": 9}}', "sampling"),
        ('{"mode": "fast"}', "mode"),
        ('{"k": 99}', "k"),
        ('{"from_the_future": 1}', "from_the_future"),
        ("", "file"),
        ("\x00\xff", "file"),
    ],
)
def test_a_damaged_file_is_kept_aside(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text, encoding="latin-1")
    file = SettingsFile(path)
    assert file.settings == Settings()
    (kept,) = tmp_path.glob("settings.json.damaged-*")
    assert kept.read_text(encoding="latin-1") == text
    assert str(kept) in file.notice
    assert named in file.notice
    file.save(Settings(system="new"))
    assert json.loads(path.read_text())["system"] == "new"


def test_a_file_that_cannot_be_written_keeps_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "in the way").write_text("")
    file = SettingsFile(tmp_path / "in the way" / "settings.json")
    with pytest.raises(SettingError, match="cannot be written"):
        file.save(Settings(system="x"))
    assert file.settings.system == ""


def test_out_of_range_is_refused_by_name() -> None:
    with pytest.raises(ValidationError, match="top-p is 0"):
        SamplingSettings(top_p=0)


@pytest.mark.parametrize("weights", [None, *WEIGHTS])
def test_every_form_of_weights_can_be_kept(tmp_path: Path, weights: Any) -> None:
    file = SettingsFile(tmp_path / "settings.json")
    file.save(Settings(weights=weights))
    assert SettingsFile(tmp_path / "settings.json").settings.weights == weights
