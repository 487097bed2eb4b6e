"""A file is the old one or the new one, never half of it; time spent outlives a run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from specdec.errors import LoadError
from specdec.training.clock import Clock
from specdec.training.files import next_file, numbered, read_json, write_json
from specdec.training.train import FLOOR, WARM, rate


def test_a_write_that_is_cut_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a/b.json"
    assert read_json(file) is None
    write_json(file, {"x": 1})

    def cut(number: int) -> None:
        raise OSError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", cut)
        with pytest.raises(OSError, match="no room"):
            write_json(file, {"x": 2})
    assert read_json(file) == {"x": 1}
    write_json(file, {"x": 3})
    assert read_json(file) == {"x": 3}
    assert [path.name for path in file.parent.iterdir()] == ["b.json"]


def test_a_file_that_is_none_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"x": ')
    with pytest.raises(LoadError, match=r"a\.json cannot be read") as caught:
        read_json(tmp_path / "a.json")
    assert "Remove it" in caught.value.hint


def test_a_file_is_never_written_over_where_one_before_it_is_gone(tmp_path: Path) -> None:
    assert next_file(tmp_path, ".json").name == "00000.json"
    for name in ("00000.json", "00007.json", "done.json", "00009.safetensors"):
        (tmp_path / name).touch()
    assert next_file(tmp_path, ".json").name == "00008.json"
    assert list(numbered(tmp_path, ".json")) == [0, 7]


def test_minutes_are_those_of_all_runs(tmp_path: Path) -> None:
    now, file = [100.0], tmp_path / "clock.json"
    first = Clock(file, 2, lambda: now[0])
    now[0] += 30
    first.enter("read")
    now[0] += 20
    first.save()
    second = Clock(file, 2, lambda: now[0])
    assert (second.spent, second.spent_on("write"), second.spent_on("read")) == (50, 30, 20)
    second.enter("train")
    now[0] += 40
    assert (second.spent_on("write", "read"), second.spent_on("train")) == (50, 40)
    assert second.total == 120
    write_json(file, {"seconds": 33.0})  # as the first version kept it
    assert Clock(file, 2, lambda: now[0]).spent_on("write") == 33


def test_training_goes_on_where_it_was_and_further_back_where_minutes_are_raised(
    tmp_path: Path,
) -> None:
    now, file = [0.0], tmp_path / "clock.json"
    clock = Clock(file, 2, lambda: now[0])
    now[0] += 20
    clock.enter("train")
    assert clock.trained == 0
    now[0] += 75
    assert clock.trained == 0.75
    clock.save()
    now[0] += 1000  # nobody works on it
    clock = Clock(file, 2, lambda: now[0])
    clock.enter("train")
    assert clock.trained == 0.75
    now[0] += 25
    assert clock.trained == 1
    clock.save()
    longer = Clock(file, 4, lambda: now[0])
    now[0] += 20  # more chats are written first
    longer.enter("train")
    assert longer.trained == 0.5  # 100 of 200 seconds
    rates = [rate(1.0, 1000, done) for done in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert rates == sorted(rates, reverse=True)
    assert (rates[0], rates[-1]) == (1.0, pytest.approx(FLOOR))
    assert rate(1.0, 0, 0.0) == 1 / WARM
