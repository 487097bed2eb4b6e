"""A guest on a shared session: no list, nothing stored, no models (DESIGN 9)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.controller import Controller
from app.desk import Options
from app.session import Session
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


@pytest.mark.parametrize(
    "act",
    [
        lambda c, s: c.chats.list(s),
        lambda c, s: c.chats.open(s, "x"),
        lambda c, s: c.chats.rename(s, "x", "y"),
        lambda c, s: c.delete(s, "x"),
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


def test_a_guest_is_forgotten_with_the_tab(kit: Kit) -> None:
    finish(kit.controller.desk.send(kit.guest("v"), "hello", OPTIONS))
    kit.controller.leave("v")
    assert kit.controller.thread(kit.guest("v")).rows == ()
