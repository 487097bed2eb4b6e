"""The conversation as a tree: nothing is replaced, every version can be shown again, and is."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app import bubbles
from app.branches import lineage, path, versions
from app.desk import Options
from app.history import History
from app.message_rows import Node
from app.migrations import migrate
from app.passing import Passing
from app.transcript import Stored, Transcript
from specdec.contract import Sampling
from specdec.errors import BusyError, HistoryError
from tests.app.desk_kit import Kit, finish, held, until

OPTIONS = Options(Sampling(seed=7))
TREE = [
    Node(1, 0, False), Node(2, 1, True), Node(3, 0, True), Node(4, 3, False),
    Node(5, 3, True), Node(6, 2, True), Node(7, 5, True),
]  # fmt: skip


@pytest.fixture(params=["stored", "passing"])
def transcript(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Transcript]:
    if request.param == "passing":
        yield Passing("guest")
        return
    history = History(tmp_path / "h.db")
    history.add_turn(history.create().id, "another conversation")
    yield Stored(history, history.create().id)
    history.close()


def said(transcript: Transcript) -> list[str]:
    return [row.content for row in transcript.messages()]


def test_a_path_follows_what_was_chosen() -> None:
    assert [n.id for n in path(TREE)] == [3, 5, 7]
    assert dict(versions(TREE)) == {3: (1, 3), 5: (4, 5)}
    assert [n.id for n in lineage(TREE, 6)] == [1, 2, 6]
    assert lineage(TREE, 99) == []
    assert path([]) == []
    unchosen = [replace(node, shown=False) for node in TREE]
    assert [n.id for n in path(unchosen)] == [3, 5, 7]  # the latest of each


def test_versions_of_messages_and_replies_are_all_kept(transcript: Transcript) -> None:
    one, reply = transcript.add_turn("one", {})
    transcript.update(reply.id, "first answer", (1,), "complete", {}, {})
    two, _ = transcript.add_turn("two", {})
    again = transcript.add_reply({}, one.id)
    transcript.update(again.id, "second answer", (2,), "complete", {}, {})
    assert said(transcript) == ["one", "second answer"]
    assert dict(transcript.versions()) == {again.id: (reply.id, again.id)}
    edited, _ = transcript.add_turn("uno", {}, 0)
    assert said(transcript) == ["uno", ""]
    assert transcript.show(one.id)
    assert said(transcript) == ["one", "second answer"]  # each branch keeps its own choices
    assert transcript.show(reply.id)
    assert said(transcript) == ["one", "first answer", "two", ""]
    assert transcript.show(edited.id)
    assert transcript.show(two.id)  # from its beginning on
    assert said(transcript) == ["one", "first answer", "two", ""]
    assert dict(transcript.versions())[one.id] == (one.id, edited.id)
    assert transcript.show(999) is False
    with pytest.raises(HistoryError, match="gone"):
        transcript.add_reply({}, 999)
    transcript.clear()
    assert (said(transcript), dict(transcript.versions())) == ([], {})


def test_a_message_of_another_conversation_is_not_shown(tmp_path: Path) -> None:
    history = History(tmp_path / "h.db")
    mine, other = history.create().id, history.create().id
    user, _ = history.add_turn(mine, "mine")
    assert Stored(history, other).show(user.id) is False
    with pytest.raises(HistoryError):
        Stored(history, other).add_reply({}, user.id)
    history.close()


def test_regenerate_and_edit_keep_the_old_branch(kit: Kit) -> None:
    tab, desk = kit.owner(), kit.controller.desk
    for text in ("one", "two"):
        finish(desk.send(tab, text, OPTIONS))
    before = kit.controller.thread(tab).rows
    finish(desk.regenerate(tab, OPTIONS))
    made = kit.engine.requests[-1].messages
    assert [m.content for m in made if m.role == "user"] == ["one", "two"]
    finish(desk.edit(tab, before[0].id, "uno", OPTIONS))
    assert [m.content for m in kit.engine.requests[-1].messages] == ["uno"]
    assert [r.content for r in kit.controller.thread(tab).rows if r.role == "user"] == ["uno"]
    desk.show(tab, before[0].id)
    desk.show(tab, before[3].id)
    assert kit.controller.thread(tab).rows == before
    finish(desk.send(tab, "three", OPTIONS))
    made = kit.engine.requests[-1].messages
    assert [m.content for m in made if m.role == "user"] == ["one", "two", "three"]
    assert made[3].ids == before[3].ids


def test_the_choice_is_there_after_a_restart(tmp_path: Path) -> None:
    kit = Kit(tmp_path)
    tab = kit.owner()
    finish(kit.controller.desk.send(tab, "one", OPTIONS))
    first = kit.controller.thread(tab).rows
    finish(kit.controller.desk.edit(tab, first[0].id, "uno", OPTIONS))
    kit.controller.desk.show(tab, first[0].id)
    kit.close()
    again = Kit(tmp_path)
    again.controller.chats.open(again.owner(), tab.conversation)
    assert again.controller.thread(again.owner()).rows == first
    again.close()


@pytest.mark.parametrize("role", ["owner", "guest"])
def test_nothing_moves_while_a_reply_is_written(kit: Kit, role: str) -> None:
    tab = kit.controller.session("tab", role)  # type: ignore[arg-type]
    finish(kit.controller.desk.send(tab, "one", OPTIONS))
    first = kit.controller.thread(tab).rows
    gate = held(kit)
    job = kit.controller.desk.edit(tab, first[0].id, "uno", OPTIONS)
    until(lambda: job.snapshot.text)
    with pytest.raises(BusyError):
        kit.controller.desk.show(tab, first[0].id)
    assert "Version" not in bubbles.thread(kit.controller.thread(tab))
    gate.set()
    finish(job)
    html = bubbles.thread(kit.controller.thread(tab))
    assert 'aria-label="Version 2 of 2"' in html
    assert f'<span data-id="{first[0].id}"><button type="button" data-act="show"' in html
    kit.controller.desk.show(tab, first[0].id)
    assert 'aria-label="Version 1 of 2"' in bubbles.thread(kit.controller.thread(tab))
    with pytest.raises(HistoryError, match="gone"):
        kit.controller.desk.show(tab, 999)
    with pytest.raises(HistoryError, match="gone"):
        kit.controller.desk.edit(tab, 999, "x", OPTIONS)


def test_an_old_file_becomes_one_branch_and_loses_nothing(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "h.db", isolation_level=None)
    migrate(db, last="0003_pinned")
    for chat in ("a", "b"):
        db.execute("INSERT INTO conversations (id, created, updated) VALUES (?, 1, 2)", (chat,))
    said = [("a", "user", "1"), ("b", "user", "x"), ("a", "assistant", "2"), ("a", "user", "3"),
            ("b", "assistant", "y"), ("a", "assistant", "4")]  # fmt: skip
    db.executemany(
        "INSERT INTO messages (conversation, role, content, created) VALUES (?, ?, ?, 1)", said
    )
    db.close()
    history = History(tmp_path / "h.db")
    assert [m.content for m in history.messages("a")] == ["1", "2", "3", "4"]
    assert [m.content for m in history.messages("b")] == ["x", "y"]
    assert history.versions("a") == {}
    history.add_turn("a", "5")
    assert [m.content for m in history.messages("a")] == ["1", "2", "3", "4", "5", ""]
    history.close()


def test_a_chat_of_twenty_thousand_messages_is_deleted_at_once(tmp_path: Path) -> None:
    """A foreign key from message to message would be too deep for SQLite."""
    db = sqlite3.connect(tmp_path / "h.db", isolation_level=None)
    migrate(db)
    db.execute("INSERT INTO conversations (id, created, updated) VALUES ('a', 1, 2)")
    rows = ((n, n - 1) for n in range(1, 20_001))
    db.execute("BEGIN")
    db.executemany(
        "INSERT INTO messages (id, conversation, role, parent, created)"
        " VALUES (?, 'a', 'user', ?, 1)",
        rows,
    )
    db.execute("COMMIT")
    db.close()
    history = History(tmp_path / "h.db")
    assert len(history.messages("a")) == 20_000
    assert history.delete("a")
    assert history.messages("a") == []
    history.close()


def test_a_search_finds_what_is_not_shown(tmp_path: Path) -> None:
    history = History(tmp_path / "h.db")
    chat = history.create("Birds").id
    first, _ = history.add_turn(chat, "what do wrens eat")
    history.add_turn(chat, "what do robins eat", after=0)
    (found,) = history.search("wrens")
    assert (found.excerpt, found.hidden) == ("what do wrens eat", first.id)
    (found,) = history.search("what")
    assert (found.excerpt, found.hidden) == ("what do robins eat", 0)
    history.close()
