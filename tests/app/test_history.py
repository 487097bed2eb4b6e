"""History: nothing is lost, nothing comes back that was deleted, any thread may write."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.history import History, title_of
from specdec.errors import HistoryError


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    history = History(tmp_path / "history.db")
    yield history
    history.close()


def test_a_turn_survives_a_restart(tmp_path: Path) -> None:
    first = History(tmp_path / "data" / "history.db")
    chat = first.create(system="Be brief.", settings={"temperature": 0.0})
    _, reply = first.add_turn(chat.id, "Grüße 👋\nhow are you", {"seed": 2**53, "mode": "standard"})
    first.update_message(
        reply.id, content="Fine.", ids=[5, 7], state="complete", metrics={"tok_s": 3.5}
    )
    first.close()

    again = History(tmp_path / "data" / "history.db")
    assert [c.title for c in again.conversations()] == ["Grüße 👋"]
    found = again.conversation(chat.id)
    assert found is not None
    assert found.system == "Be brief."
    assert found.settings == {"temperature": 0.0}
    user, answer = again.messages(chat.id)
    assert (user.role, user.content, user.state) == ("user", "Grüße 👋\nhow are you", "complete")
    assert (answer.role, answer.content, answer.ids) == ("assistant", "Fine.", (5, 7))
    assert answer.state == "complete"
    assert answer.metrics == {"tok_s": 3.5}
    assert answer.request == {"seed": 2**53, "mode": "standard"}
    again.close()


def test_a_killed_program_leaves_a_readable_partial_reply(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from app.history import History;"
        "h = History(Path(sys.argv[1])); c = h.create(); u, r = h.add_turn(c.id, 'question');"
        "h.update_message(r.id, content='half an ans'); os.kill(os.getpid(), 9)"
    )
    path = tmp_path / "history.db"
    run = subprocess.run([sys.executable, "-c", script, str(path)], check=False, timeout=60)
    assert run.returncode == -9
    history = History(path)
    (chat,) = history.conversations()
    user, reply = history.messages(chat.id)
    assert user.content == "question"
    assert (reply.content, reply.state) == ("half an ans", "partial")
    history.close()


def test_both_rows_of_a_turn_or_neither(history: History) -> None:
    with pytest.raises(HistoryError, match="deleted"):
        history.add_turn("no such chat", "hello")
    assert history.messages("no such chat") == []


def test_the_reply_row_is_there_before_any_token(history: History) -> None:
    chat = history.create()
    history.add_turn(chat.id, "hello")
    assert [(m.role, m.content, m.state) for m in history.messages(chat.id)] == [
        ("user", "hello", "complete"),
        ("assistant", "", "partial"),
    ]


def test_cleared_messages_come_back_beside_what_was_said_since(history: History) -> None:
    chat, other = history.create("kept").id, history.create().id
    first, _ = history.add_turn(chat, "one")
    edited, _ = history.add_turn(chat, "uno", after=0)
    history.add_turn(other, "elsewhere")
    hidden = history.hide_messages(chat)
    assert history.tree(chat) == []
    assert {c.id for c in history.conversations()} == {chat, other}
    assert history.conversation(hidden) is None
    assert history.search("uno") == []
    since, _ = history.add_turn(chat, "since")
    assert history.bring_back(hidden)
    assert [m.content for m in history.messages(chat)] == ["uno", ""]
    assert history.versions(chat)[edited.id] == (first.id, edited.id, since.id)
    assert history.bring_back(hidden) is False
    assert len(history.messages(other)) == 2


def test_what_is_hidden_is_in_no_list_and_takes_nothing(history: History) -> None:
    chat = history.create("Birds").id
    _, reply = history.add_turn(chat, "wrens")
    assert history.hide(chat)
    assert history.hide(chat) is False
    assert (history.conversations(), history.search("wrens")) == ([], [])
    assert history.conversation(chat) is None
    assert not history.rename(chat, "x")
    assert not history.pin(chat, True)
    assert not history.set_system(chat, "x")
    with pytest.raises(HistoryError, match="deleted"):
        history.add_turn(chat, "more")
    assert history.update_message(reply.id, content="its end")  # a reply that was being stopped
    assert history.bring_back(chat)
    assert [m.content for m in history.messages(chat)] == ["wrens", "its end"]
    assert history.conversations()[0].title == "Birds"


def test_ids_are_not_used_twice(history: History) -> None:
    """A late update of a deleted reply must not land in the reply that replaced it."""
    chat = history.create()
    user, reply = history.add_turn(chat.id, "one")
    history.delete(history.hide_messages(chat.id))
    again, fresh = history.add_turn(chat.id, "one, edited")
    assert {again.id, fresh.id}.isdisjoint({user.id, reply.id})
    assert history.update_message(reply.id, content="late") is False
    assert history.messages(chat.id)[1].content == ""


def test_delete_takes_the_messages_and_their_bytes(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    history = History(path)
    chat = history.create("title")
    history.add_turn(chat.id, "a very secret sentence")
    assert history.delete(chat.id) is True
    assert history.delete(chat.id) is False
    assert history.messages(chat.id) == []
    assert history.rename(chat.id, "x") is False
    history.close()  # the last connection folds the write-ahead log into the file
    assert all(b"very secret" not in file.read_bytes() for file in tmp_path.iterdir())


def test_the_latest_used_comes_first(history: History) -> None:
    old, new = history.create("old"), history.create("new")
    assert [c.id for c in history.conversations()] == [new.id, old.id]
    history.add_turn(old.id, "back again")
    assert [c.title for c in history.conversations()] == ["old", "new"]  # a title is kept
    assert history.rename(new.id, "renamed")
    assert history.conversations()[0].title == "renamed"


def test_an_unknown_state_is_refused(history: History) -> None:
    chat = history.create()
    with pytest.raises(HistoryError, match="CHECK"):
        history.add_message(chat.id, "user", "x", state="finished")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one"):
        history.update_message(1)


def test_many_threads_write_at_once(history: History) -> None:
    chat = history.create()
    errors: list[BaseException] = []

    def write(name: int) -> None:
        try:
            for turn in range(10):
                _, reply = history.add_turn(chat.id, f"{name}.{turn}")
                history.update_message(reply.id, content=f"re {name}.{turn}", state="complete")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    rows = history.messages(chat.id)
    assert len(rows) == 120
    for user, reply in zip(rows[::2], rows[1::2], strict=True):
        assert reply.content == f"re {user.content}"


def test_two_programs_share_the_file(tmp_path: Path) -> None:
    one, two = History(tmp_path / "h.db"), History(tmp_path / "h.db")
    chat = one.create("shared")
    two.add_turn(chat.id, "from two")
    assert [m.content for m in one.messages(chat.id)] == ["from two", ""]
    one.close()
    two.close()


def test_a_damaged_file_is_kept_aside(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    path.write_bytes(b"not a database at all, but somebody's bytes" * 40)
    history = History(path)
    (kept,) = tmp_path.glob("history.db.damaged-*")
    assert kept.read_bytes().startswith(b"not a database")
    assert str(kept) in history.notice
    assert history.conversations() == []
    history.close()


def test_a_healthy_file_gives_no_notice(history: History) -> None:
    assert history.notice == ""


def test_an_unusable_place_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(HistoryError, match="cannot be opened") as caught:
        History(tmp_path / "file" / "history.db")
    assert "--data-dir" in caught.value.hint


def test_a_closed_history_says_so(history: History) -> None:
    history.close()
    history.close()
    with pytest.raises(HistoryError, match="closed"):
        history.conversations()


def test_a_locked_file_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history.db"
    History(path).close()
    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda p, **kw: real(p, **{**kw, "timeout": 0.05}))
    blocker = real(path, isolation_level=None)
    blocker.execute("PRAGMA locking_mode = EXCLUSIVE")
    blocker.execute("BEGIN EXCLUSIVE")
    with pytest.raises(HistoryError, match="locked"):
        History(path)
    blocker.close()
    assert list(tmp_path.glob("*damaged*")) == []


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("\n\n  hello there \nmore", "hello there"),
        ("", ""),
        ("word " * 30, "word word word word word word word word word word word…"),
        ("x" * 80, "x" * 59 + "…"),
    ],
)
def test_title(text: str, title: str) -> None:
    assert title_of(text) == title
