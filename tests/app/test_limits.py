"""What guests may take: messages, tokens, places in the queue. The owner is never shut out."""

from __future__ import annotations

import pytest

from app.access import AWAY_S, MAX_REQUESTS, Access, make_logins
from app.desk import Options
from app.guests import GuestLimits
from app.line import GUESTS_WAITING, OWN_WAITING
from app.session import Session
from specdec.contract import Mode, Sampling
from specdec.errors import BusyError, SettingError
from tests.app.desk_kit import Kit, finish, held, until

RACE: tuple[Mode, Mode] = ("standard", "speculative")
OPTIONS = Options(Sampling(seed=7))


def shared(kit: Kit, **limits: int | None) -> None:
    kit.controller.guests.begin(GuestLimits(**limits))


def guest(kit: Kit, name: str = "a", tab: str = "") -> Session:
    return kit.controller.session(tab or name, "guest", f"share:{name}")


def test_a_guest_has_so_many_messages_whatever_tab_they_come_from(kit: Kit) -> None:
    shared(kit, turns=2)
    desk = kit.controller.desk
    finish(desk.send(guest(kit), "one", OPTIONS))
    finish(kit.controller.races.start(guest(kit, tab="other"), "two", OPTIONS, RACE))
    for act in (
        lambda: desk.send(guest(kit, tab="third"), "three", OPTIONS),
        lambda: desk.regenerate(guest(kit), OPTIONS),
        lambda: kit.controller.races.start(guest(kit), "four", OPTIONS, RACE),
    ):
        with pytest.raises(BusyError, match="all 2 messages"):
            act()
    assert len(kit.controller.thread(guest(kit)).rows) == 2  # nothing they had is lost
    assert kit.controller.guests.left("share:a") == 0
    finish(desk.send(guest(kit, "b"), "mine", OPTIONS))
    finish(desk.send(kit.owner(), "the owner's", OPTIONS))


def test_a_guests_reply_is_cut_and_the_owners_is_not(kit: Kit) -> None:
    shared(kit, reply_tokens=5)
    job = kit.controller.desk.send(guest(kit), "hello", OPTIONS)
    assert len(finish(job).ids) == 5
    assert job.snapshot.reason == "length"
    race = finish(kit.controller.races.start(guest(kit), "go", OPTIONS, RACE))
    assert len(race.now.standard.ids) == len(race.now.speculative.ids) == 5
    assert len(finish(kit.controller.desk.send(kit.owner(), "hello", OPTIONS)).ids) > 5


def test_all_guests_together_have_so_many_tokens(kit: Kit) -> None:
    shared(kit, reply_tokens=5, tokens=10)
    desk = kit.controller.desk
    for name in "ab":
        finish(desk.send(guest(kit, name), "hello", OPTIONS))
    assert kit.controller.guests.used() == 10
    with pytest.raises(BusyError, match="All 10 tokens"):
        desk.send(guest(kit, "c"), "hello", OPTIONS)
    row = kit.controller.thread(guest(kit, "a")).rows[1]
    with pytest.raises(BusyError, match="All 10 tokens"):
        kit.controller.verifier.start(guest(kit, "a"), row.id)
    finish(desk.send(kit.owner(), "the owner's", OPTIONS))
    shared(kit, tokens=10)  # a new link counts anew
    finish(desk.send(guest(kit, "d"), "hello", OPTIONS))


def test_guests_fill_their_places_and_the_owner_is_next(kit: Kit) -> None:
    shared(kit)
    desk, gate = kit.controller.desk, held(kit)
    running = desk.send(guest(kit, "0"), "running", OPTIONS)
    until(lambda: kit.engine.running)
    waiting = [
        desk.send(guest(kit, f"{n}"), f"g{n}", OPTIONS) for n in range(1, GUESTS_WAITING + 1)
    ]
    with pytest.raises(BusyError, match="already wait"):
        desk.send(guest(kit, "late"), "no room", OPTIONS)
    mine = [desk.send(kit.owner(f"o{n}"), f"mine {n}", OPTIONS) for n in range(2)]
    assert [kit.controller.live(job).position for job in mine] == [1, 2]
    assert kit.controller.live(waiting[0]).position == 3
    gate.set()
    for job in (running, *waiting, *mine):
        finish(job)
    said = [request.messages[-1].content for request in kit.engine.requests]
    assert said[:4] == ["running", "mine 0", "mine 1", "g1"]


def test_one_guest_does_not_take_every_place(kit: Kit) -> None:
    shared(kit)
    desk, gate = kit.controller.desk, held(kit)
    jobs = [desk.send(guest(kit, "a", "0"), "running", OPTIONS)]
    until(lambda: kit.engine.running)
    jobs += [desk.send(guest(kit, "a", f"t{n}"), "wait", OPTIONS) for n in range(OWN_WAITING)]
    with pytest.raises(BusyError, match="of yours"):
        desk.send(guest(kit, "a", "more"), "wait", OPTIONS)
    jobs.append(desk.send(guest(kit, "b"), "wait", OPTIONS))
    gate.set()
    for job in jobs:
        finish(job)


def test_a_guest_on_ones_own_network_is_bound_in_time_only(kit: Kit) -> None:
    tab = kit.controller.session("x", "guest", "network:1")
    assert kit.controller.guests.left(tab.who) is None
    sampling = Sampling(max_tokens=100_000)
    assert kit.controller.guests.cut(tab.who, sampling).max_tokens == 1024
    assert kit.controller.guests.cut("owner", sampling) is sampling


def test_a_tab_belongs_to_one_login(kit: Kit) -> None:
    guest(kit, "a", "tab")
    with pytest.raises(SettingError):
        guest(kit, "b", "tab")


@pytest.mark.parametrize("name", ["guests", "turns", "reply_tokens", "tokens"])
def test_a_limit_that_lets_nobody_do_anything_is_refused(name: str) -> None:
    with pytest.raises(SettingError, match="limit on"):
        GuestLimits(**{name: 0})


def test_guests_count_while_they_are_here() -> None:
    now = [0.0]
    access = Access(make_logins("me:correct horse"), lambda: now[0], most=1)
    (owner, one) = access.logins
    first = access.login(one.user, one.password)
    with pytest.raises(BusyError, match="no room"):
        access.login(one.user, one.password)
    assert access.login(owner.user, owner.password)
    access.enter(first)
    now[0] += AWAY_S
    assert access.here() == 1  # a page that is open has a request under way
    access.leave(first)
    now[0] += AWAY_S
    assert access.here() == 0
    second = access.login(one.user, one.password)
    with pytest.raises(BusyError):
        access.enter(first)
    access.enter(second)


def test_a_guest_asks_so_much_at_once_and_no_more() -> None:
    access = Access(make_logins())
    tokens = [access.login(login.user, login.password) for login in access.logins]
    for token in tokens:
        for _ in range(MAX_REQUESTS):
            access.enter(token)
    access.enter(tokens[0])
    with pytest.raises(BusyError, match="Too many requests"):
        access.enter(tokens[1])
    access.leave(tokens[1])
    access.enter(tokens[1])


def test_an_ended_way_lets_nobody_in() -> None:
    access = Access(make_logins())
    login = access.logins[0]
    token = access.login(login.user, login.password)
    access.end()
    assert access.role(token) is None
    assert access.login(login.user, login.password) is None
    assert not access.opens(access.key)
    assert not access.open
