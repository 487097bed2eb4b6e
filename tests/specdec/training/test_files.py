"""A file is the old one or the new one, never half of it; time spent outlives a run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from specdec.training.clock import Clock
from specdec.training.files import read_json, write_json


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


def test_minutes_are_those_of_all_runs(tmp_path: Path) -> None:
    now = [100.0]
    first = Clock(tmp_path / "clock.json", 2, lambda: now[0])
    now[0] += 50
    assert first.before(0.5)
    first.save()
    second = Clock(tmp_path / "clock.json", 2, lambda: now[0])
    assert second.spent == 50
    now[0] += 10
    assert not second.before(0.5)
    assert second.total == 120
