"""Logins, sessions and the limit on attempts."""

from __future__ import annotations

import pytest

from app.access import ATTEMPTS, MAX_SESSIONS, REFILL_S, SESSION_S, Access, make_logins
from specdec.errors import BusyError
from tests.app.desk_kit import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def access(clock: Clock) -> Access:
    return Access(make_logins("me:correct horse"), clock)


def test_made_passwords_are_new_each_time_and_long() -> None:
    one, two = make_logins(), make_logins()
    assert len({login.password for login in (*one, *two)}) == 4
    assert min(len(login.password) for login in one) >= 12
    assert [login.role for login in one] == ["owner", "guest"]


def test_an_owner_called_guest_does_not_share_the_name() -> None:
    owner, guest = make_logins("guest:password1")
    assert owner.user != guest.user


def test_without_logins_everyone_is_the_owner() -> None:
    assert Access().open
    assert Access().role(None) == "owner"


def test_each_login_has_its_role(access: Access) -> None:
    owner, guest = access.logins
    token = access.login("me", "correct horse")
    assert access.role(token) == "owner"
    assert access.role(access.login(guest.user, guest.password)) == "guest"
    assert access.login(owner.user, guest.password) is None
    assert access.login(guest.user, owner.password) is None
    assert access.login("", "") is None
    assert access.role(None) is None
    assert access.role("") is None
    assert access.role("x" * 43) is None


def test_a_session_ends(access: Access, clock: Clock) -> None:
    token = access.login("me", "correct horse")
    assert token is not None
    clock.now = SESSION_S - 1
    assert access.role(token) == "owner"
    clock.now = SESSION_S
    assert access.role(token) is None
    token = access.login("me", "correct horse")
    assert token is not None
    access.logout(token)
    assert access.role(token) is None


def test_too_many_wrong_attempts_stop_the_right_password_too(access: Access, clock: Clock) -> None:
    for _ in range(ATTEMPTS):
        assert access.login("me", "wrong") is None
    with pytest.raises(BusyError, match="attempts") as caught:
        access.login("me", "correct horse")
    assert "seconds" in caught.value.hint
    guest = access.logins[1]
    assert access.login(guest.user, guest.password)  # another name is not shut out
    clock.now += REFILL_S
    assert access.login("me", "correct horse")


def test_made_up_names_share_one_budget(access: Access) -> None:
    for n in range(ATTEMPTS):
        assert access.login(f"nobody{n}", "x") is None
    with pytest.raises(BusyError):
        access.login("nobody else", "x")
    assert len(access._attempts) == 1


def test_sessions_are_bounded(access: Access) -> None:
    tokens = [access.login("me", "correct horse") for _ in range(MAX_SESSIONS + 5)]
    assert access.role(tokens[0]) is None
    assert access.role(tokens[-1]) == "owner"
