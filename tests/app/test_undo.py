"""Deleting without a question: it comes back for a while, then its bytes are gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.desk import Options
from app.history import History
from app.undo import Bin, Gone
from specdec.contract import Sampling
from specdec.errors import BusyError, HistoryError, SettingError
from tests.app.desk_kit import Kit, finish, held, until

OPTIONS = Options(Sampling(seed=7))
SECRET = "a very secret sentence"


def on_disk(folder: Path) -> bool:
    return any(SECRET.encode() in file.read_bytes() for file in folder.glob("history.db*"))


def asked(kit: Kit, text: str = f"Birds\n{SECRET}") -> str:
    tab = kit.owner()
    kit.controller.new(tab)
    finish(kit.controller.desk.send(tab, text, OPTIONS))
    return tab.conversation


@pytest.mark.parametrize("way", ["delete", "clear"])
def test_it_comes_back_as_it_was(kit: Kit, way: str) -> None:
    chat, tab, deleting = asked(kit), kit.owner(), kit.controller.deleting
    before = kit.controller.thread(tab)
    gone = deleting.delete(tab, chat) if way == "delete" else deleting.clear(tab)
    assert gone is not None
    assert (gone.what, gone.title) == ({"delete": "Deleted", "clear": "Cleared"}[way], "Birds")
    assert kit.controller.thread(tab).rows == ()
    assert kit.engine.forgotten == [chat]  # what was kept for drafts does not come back
    deleting.undo(tab)
    assert kit.controller.thread(tab) == before
    with pytest.raises(HistoryError, match="gone for good"):
        deleting.undo(tab)


@pytest.mark.parametrize("way", ["delete", "clear"])
@pytest.mark.parametrize("end", ["next", "time", "close", "crash"])
def test_then_its_bytes_are_gone(tmp_path: Path, way: str, end: str) -> None:
    kit = Kit(tmp_path)
    if end == "time":
        kit.controller.deleting.bin = Bin(0.01)
    chat, tab, deleting = asked(kit), kit.owner(), kit.controller.deleting
    if way == "delete":
        deleting.delete(tab, chat)
    else:
        deleting.clear(tab)
    if end == "next":
        deleting.delete(tab, asked(kit, "another"))
    if end == "time":
        until(lambda: not deleting.bin._held)
        with pytest.raises(HistoryError, match="gone for good"):
            deleting.undo(tab)
    if end == "crash":  # nobody closed the bin; the next start does what it would have done
        kit.controller._line.close()
        kit.history.close()
        assert on_disk(tmp_path)
        kit = Kit(tmp_path)
    kit.close()
    assert not on_disk(tmp_path)
    history = History(tmp_path / "history.db")
    assert len(history.conversations()) == (way == "clear")
    history.close()


@pytest.mark.parametrize("way", ["delete", "clear"])
def test_the_reply_being_made_is_stopped_and_what_was_written_comes_back(
    kit: Kit, way: str
) -> None:
    tab, deleting, gate = kit.owner(), kit.controller.deleting, held(kit)
    job = kit.controller.desk.send(tab, "hello", OPTIONS)
    until(lambda: job.snapshot.text)
    chat = tab.conversation
    gone = deleting.delete(tab, chat) if way == "delete" else deleting.clear(tab)
    assert gone is not None
    assert job.is_set()
    if way == "clear":
        with pytest.raises(BusyError):
            deleting.undo(tab)  # its last round still goes on
    gate.set()
    live = finish(job)
    deleting.undo(tab)
    row = kit.controller.thread(tab).rows[-1]
    assert (row.content, row.state) == (live.text, "interrupted")


def test_another_tab_may_have_moved_on(kit: Kit) -> None:
    chat, tab, deleting = asked(kit), kit.owner(), kit.controller.deleting
    deleting.delete(tab, chat)
    other = asked(kit, "something else")
    deleting.undo(kit.owner("another"))
    assert tab.conversation == other
    assert {c.id for c in kit.history.conversations()} == {chat, other}


def test_a_guest_undoes_only_what_that_guest_cleared(kit: Kit) -> None:
    chat, deleting, guest = asked(kit), kit.controller.deleting, kit.guest()
    deleting.delete(kit.owner(), chat)
    with pytest.raises(HistoryError):
        deleting.undo(guest)
    finish(kit.controller.desk.send(guest, "mine", OPTIONS))
    before = kit.controller.thread(guest).rows
    deleting.clear(guest)
    assert kit.controller.thread(guest).rows == ()
    assert deleting.clear(guest) is None  # nothing more to clear, and nothing made final by it
    finish(kit.controller.desk.send(guest, "since", OPTIONS))
    deleting.undo(guest)
    assert kit.controller.thread(guest).rows == before
    assert len(kit.controller.thread(guest).versions) == 1
    with pytest.raises(SettingError):
        deleting.delete(guest, chat)
    assert kit.history.conversations() == []


def test_a_purge_that_fails_is_not_the_end_of_deleting() -> None:
    def broken() -> None:
        raise HistoryError("The disk is full.")

    back: list[str] = []
    bin_ = Bin()
    bin_.put("owner", Gone("Deleted", "one", "1", lambda: back.append("one"), broken))
    bin_.put("owner", Gone("Deleted", "two", "2", lambda: back.append("two"), broken))
    assert bin_.undo("owner").title == "two"
    assert back == ["two"]
    bin_.close()
