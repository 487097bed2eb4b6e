"""Unload: the engine's memory comes back, the page and its chats stay, a message loads again."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from app import view
from app.desk import Options
from specdec.contract import Sampling
from specdec.errors import SettingError
from tests.app.desk_kit import Kit, finish, held, until

OPTIONS = Options(Sampling(seed=7))
PAIR = ("smollm2-135m-instruct", "none")


def test_it_waits_for_the_reply_and_the_next_message_loads_the_same_pair(kit: Kit) -> None:
    me = kit.owner()
    finish(kit.controller.load(me, *PAIR))
    go = held(kit)
    reply = kit.controller.desk.send(me, "hello", OPTIONS)
    until(lambda: reply.snapshot.text)
    job = kit.controller.unloading.unload(me)
    assert kit.engine.unloads == 0
    go.set()
    assert finish(reply).reason == "end"
    finish(job)
    assert kit.engine.unloads == 1
    status = kit.controller.status()
    assert (status.state, status.pair) == ("unloaded", None)
    assert view.pill(status, None, "speculative", None).text == "unloaded"
    assert len(kit.controller.thread(me).rows) == 2
    shown = kit.controller.unloading.pair
    assert shown is not None
    assert shown.target.value == PAIR[0]
    kit.script.hold = None
    assert finish(kit.controller.desk.send(me, "again", OPTIONS)).reason == "end"
    assert kit.engine.loads == [PAIR, PAIR]
    assert kit.controller.unloading.pair is None


def test_idle_unload_is_off_until_asked_for_and_counts_from_the_last_reply(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    me, unloading = kit.owner(), kit.controller.unloading
    finish(kit.controller.load(me, *PAIR))
    clock = [1000.0]
    monkeypatch.setattr("app.line.time.monotonic", lambda: clock[0])
    finish(kit.controller.desk.send(me, "hello", OPTIONS))
    until(lambda: kit.controller.status().queue == 0)
    clock[0] += 10**6
    assert not unloading.look()
    unloading.keep(me, 30)
    finish(kit.controller.desk.send(me, "and now?", OPTIONS))
    clock[0] += 30 * 60 - 1
    assert not unloading.look()
    clock[0] += 1
    assert unloading.look()
    until(lambda: kit.engine.unloads == 1)
    until(lambda: kit.controller.status().state == "unloaded")
    clock[0] += 10**6
    assert not unloading.look()  # once is enough


def test_a_reply_that_is_being_made_is_no_idleness(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    me = kit.owner()
    finish(kit.controller.load(me, *PAIR))
    kit.controller.unloading.keep(me, 1)
    go: threading.Event = held(kit)
    reply = kit.controller.desk.send(me, "hello", OPTIONS)
    until(lambda: reply.snapshot.text)
    monkeypatch.setattr("app.line.time.monotonic", lambda: 10.0**9)
    assert not kit.controller.unloading.look()
    go.set()


def test_the_setting_is_kept_checked_and_the_owners(kit: Kit, tmp_path: Path) -> None:
    unloading = kit.controller.unloading
    unloading.keep(kit.owner(), 45)
    again = Kit(tmp_path)
    assert again.controller.unloading.minutes(again.owner()) == 45
    again.close()
    unloading.keep(kit.owner(), None)
    assert unloading.minutes(kit.owner()) is None
    with pytest.raises(SettingError, match="0 minutes are out of range"):
        unloading.keep(kit.owner(), 0)
    for act in (unloading.unload, unloading.minutes, lambda s: unloading.keep(s, 5)):
        with pytest.raises(SettingError, match="guest"):
            act(kit.guest())
    assert kit.engine.unloads == 0
