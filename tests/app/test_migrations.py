"""Migrations: every past version reaches today's tables with its rows; a newer file is refused."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from app import migrations
from app.history import History
from app.migrations import MIGRATIONS, applied, migrate
from specdec.errors import HistoryError

NAMES = [name for name, _ in MIGRATIONS]


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


def _schema(db: sqlite3.Connection) -> list[tuple[str, str]]:
    return db.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()


@pytest.mark.parametrize("version", NAMES)
def test_every_past_version_keeps_its_rows_and_reaches_today(tmp_path: Path, version: str) -> None:
    fresh = _connect(tmp_path / "fresh.db")
    migrate(fresh)
    old = _connect(tmp_path / "old.db")
    assert migrate(old, last=version) == NAMES[: NAMES.index(version) + 1]
    old.execute(
        "INSERT INTO conversations (id, title, created, updated) VALUES ('c1', 'kept', 1.0, 2.0)"
    )
    if version >= "0002":
        old.execute(
            "INSERT INTO messages (conversation, role, content, ids, created)"
            " VALUES ('c1', 'assistant', 'old reply', '[1, 2]', 1.5)"
        )
    old.close()

    history = History(tmp_path / "old.db")
    assert [(c.id, c.title, c.updated) for c in history.conversations()] == [("c1", "kept", 2.0)]
    expected = [("old reply", (1, 2))] if version >= "0002" else []
    assert [(m.content, m.ids) for m in history.messages("c1")] == expected
    history.add_turn("c1", "still writable")
    history.close()
    again = _connect(tmp_path / "old.db")
    assert _schema(again) == _schema(fresh)
    assert applied(again) == set(NAMES)


def test_a_second_run_applies_nothing() -> None:
    db = sqlite3.connect(":memory:", isolation_level=None)
    assert migrate(db) == NAMES
    assert migrate(db) == []


def test_a_newer_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    db = _connect(tmp_path / "h.db")
    migrate(db)
    db.execute("INSERT INTO migrations VALUES ('9999_future', 0)")
    db.close()
    with pytest.raises(HistoryError, match="9999_future") as caught:
        History(tmp_path / "h.db")
    assert "Update" in caught.value.hint
    assert applied(_connect(tmp_path / "h.db")) == {*NAMES, "9999_future"}


def test_a_failing_migration_leaves_the_version_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = (*MIGRATIONS, ("0099_broken", ("CREATE TABLE half (x)", "NOT SQL")))
    monkeypatch.setattr(migrations, "MIGRATIONS", broken)
    db = _connect(tmp_path / "h.db")
    with pytest.raises(sqlite3.OperationalError):
        migrate(db)
    assert applied(db) == set(NAMES)
    assert "half" not in [name for name, _ in _schema(db)]


def test_names_are_unique_and_in_order() -> None:
    assert sorted(set(NAMES)) == NAMES
