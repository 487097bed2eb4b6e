"""Conversations and settings that outlive a tab, a reply or the program."""

from __future__ import annotations

import threading
from pathlib import Path

from app.desk import Options
from specdec.contract import Sampling
from tests.app.desk_kit import Kit, finish, until

OPTIONS = Options(Sampling(seed=7))


def test_conversations_are_there_after_a_restart(tmp_path: Path) -> None:
    kit = Kit(tmp_path)
    finish(kit.controller.desk.send(kit.owner(), "remember me", OPTIONS))
    kit.close()
    again = Kit(tmp_path)
    tab = again.owner()
    (found,) = again.controller.chats.list(tab)
    again.controller.chats.open(tab, found.id)
    thread = again.controller.thread(tab)
    assert thread.title == "remember me"
    assert thread.rows[1].content
    again.close()


def test_clear_delete_and_new(kit: Kit) -> None:
    tab = kit.owner()
    finish(kit.controller.desk.send(tab, "hello", OPTIONS))
    first = tab.conversation
    kit.controller.deleting.clear(tab)
    assert kit.controller.thread(tab).rows == ()
    assert kit.controller.thread(tab).conversation == first
    kit.controller.new(tab)
    assert tab.conversation == ""
    gate = kit.script.hold = threading.Event()
    job = kit.controller.desk.send(tab, "hello", OPTIONS)
    until(lambda: job.snapshot.text)
    kit.controller.deleting.delete(tab, tab.conversation)
    gate.set()
    finish(job)
    assert kit.controller.thread(tab).rows == ()
    assert [c.id for c in kit.controller.chats.list(tab)] == [first]


def test_the_owners_controls_are_remembered(kit: Kit, tmp_path: Path) -> None:
    kit.controller.keep(kit.owner(), Options(Sampling(temperature=0.1), "standard", system="Short"))
    kit.controller.keep(kit.guest(), Options(Sampling(temperature=2.0)))
    again = Kit(tmp_path)
    options = again.controller.options(again.owner())
    assert (options.sampling.temperature, options.mode, options.system) == (
        0.1,
        "standard",
        "Short",
    )
    assert again.controller.options(again.guest()) == Options()
    again.close()
