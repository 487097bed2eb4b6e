"""A guest on a shared session: no list, nothing stored, no models (DESIGN 9)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.controller import Controller
from app.desk import Options
from app.session import FORGET_S, Session, Sessions
from specdec.contract import Sampling
from specdec.errors import SettingError
from tests.app.desk_kit import Kit, finish

OPTIONS = Options(Sampling(seed=7))


def test_nothing_a_guest_writes_is_stored(kit: Kit) -> None:
    guest = kit.guest()
    finish(kit.controller.desk.send(guest, "a secret", OPTIONS))
    assert kit.history.conversations() == []
    assert kit.controller.thread(guest).rows[0].content == "a secret"
    finish(kit.controller.desk.send(guest, "go on", OPTIONS))
    assert len(kit.engine.requests[-1].messages) == 3


def test_only_the_owners_replies_use_and_fill_the_store_of_earlier_ones(kit: Kit) -> None:
    """And a race, which starts from nothing, does neither, whoever asks for it."""
    finish(kit.controller.desk.send(kit.guest(), "a secret", OPTIONS))
    finish(kit.controller.desk.regenerate(kit.guest(), OPTIONS))
    finish(kit.controller.races.start(kit.guest(), "race me", OPTIONS, ("standard", "speculative")))
    finish(kit.controller.races.start(kit.owner(), "race me", OPTIONS, ("standard", "speculative")))
    assert {request.remember for request in kit.engine.requests} == {False}
    finish(kit.controller.desk.send(kit.owner(), "mine", OPTIONS))
    assert kit.engine.requests[-1].remember
    kit.controller.deleting.clear(kit.guest())
    kit.controller.new(kit.guest())
    assert kit.engine.forgotten == []


@pytest.mark.parametrize(
    "act",
    [
        lambda c, s: c.chats.list(s),
        lambda c, s: c.chats.open(s, "x"),
        lambda c, s: c.chats.rename(s, "x", "y"),
        lambda c, s: c.deleting.delete(s, "x"),
        lambda c, s: c.load(s, "qwen3-32b", None),
        lambda c, s: c.models(s),
    ],
    ids=["list", "open", "rename", "delete", "load", "models"],
)
def test_a_guest_reaches_no_list_and_no_models(
    kit: Kit, act: Callable[[Controller, Session], object]
) -> None:
    with pytest.raises(SettingError):
        act(kit.controller, kit.guest())
    assert kit.engine.loads == []


def test_guests_do_not_see_each_other_or_the_owner(kit: Kit) -> None:
    finish(kit.controller.desk.send(kit.owner(), "mine", OPTIONS))
    one, two = kit.guest("one"), kit.guest("two")
    finish(kit.controller.desk.send(one, "one's", OPTIONS))
    assert kit.controller.thread(two).rows == ()
    two.conversation = kit.owner().conversation  # as a forged request might try
    assert kit.controller.thread(two).rows == ()
    assert kit.controller.desk.active(two) is None


def test_a_guest_cannot_take_the_owners_tab(kit: Kit) -> None:
    kit.owner("tab")
    with pytest.raises(SettingError):
        kit.controller.session("tab", "guest")


def test_a_guest_is_forgotten_a_while_after_the_tab_left() -> None:
    now = [0.0]
    sessions = Sessions(clock=lambda: now[0])
    sessions.get("v", "guest").passing.add_turn("hello", {})
    sessions.leave("v")
    now[0] = FORGET_S - 1
    assert sessions.get("v", "guest").passing.messages()
    sessions.leave("v")
    now[0] += FORGET_S
    assert sessions.get("v", "guest").passing.messages() == []


@pytest.mark.parametrize("role", ["owner", "guest"])
def test_a_dropped_connection_loses_no_conversation(kit: Kit, role: str) -> None:
    """The page stays and goes on asking, after the server saw its heartbeat end."""
    tab = kit.controller.session("t", role)  # type: ignore[arg-type]
    finish(kit.controller.desk.send(tab, "hello", OPTIONS))
    kit.controller.leave("t")
    again = kit.controller.session("t", role)  # type: ignore[arg-type]
    assert kit.controller.thread(again).rows[0].content == "hello"
    finish(kit.controller.desk.send(again, "go on", OPTIONS))
    assert len(kit.engine.requests[-1].messages) == 3


def test_a_tab_that_left_is_not_handed_to_another_login(kit: Kit) -> None:
    finish(kit.controller.desk.send(kit.owner("t"), "mine", OPTIONS))
    kit.controller.leave("t")
    assert kit.controller.thread(kit.guest("t")).rows == ()
