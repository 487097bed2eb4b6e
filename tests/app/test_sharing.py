"""A public link from the page: two listeners over one application, with real requests to both."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.access import Login
from app.desk import Options
from app.guests import GuestLimits
from app.login import COOKIE
from specdec.contract import Sampling
from specdec.errors import BusyError, SettingError
from tests.app.desk_kit import finish, held, until
from tests.app.share_kit import Shared, sharing

OPTIONS = Options(Sampling(seed=7))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """One for all; each test begins and ends what it shares."""
    with (
        pytest.MonkeyPatch.context() as patch,
        sharing(tmp_path_factory.mktemp("sharing"), patch) as served,
    ):
        yield served


@pytest.fixture(autouse=True)
def over(served: Shared) -> Iterator[None]:
    yield
    served.end()


def ask(url: str, path: str = "/health", **more: object) -> int:
    return httpx.get(url + path, timeout=20, **more).status_code  # type: ignore[arg-type]


def test_a_link_puts_a_login_before_guests_and_nothing_before_the_owner(served: Shared) -> None:
    assert ask(served.url) == 200
    view = served.share()
    assert (view.state, view.link) == ("on", "https://x.example")
    assert ask(served.url) == 200  # the owner's own tab goes on without a login
    assert ask(served.url, "/login") == 404
    assert ask(served.guest_url) == 401
    assert ask(served.guest_url, "/config") == 401
    forged = {"host": "127.0.0.1", "x-forwarded-for": "127.0.0.1", "x-real-ip": "127.0.0.1"}
    assert ask(served.guest_url, headers=forged) == 401
    with served.login() as guest:
        assert guest.get("/").status_code == 200
        assert guest.get("/health").json() == {"state": "ready"}
        assert guest.get("/chats/" + "0" * 32 + ".md").json() == {"detail": "Not found"}


def test_only_the_door_for_guests_is_tunnelled(served: Shared) -> None:
    served.share()
    port = served.doors[-1].reach[1]
    assert port != int(served.url.rpartition(":")[2])
    assert served.kit.controller.sharing._now is not None
    assert served.kit.controller.sharing._now.link.port == port  # type: ignore[union-attr]


def test_no_tunnel_is_opened_for_a_guest_and_a_guest_ends_none(served: Shared) -> None:
    guest, before = served.kit.guest(), len(served.programs)
    share = served.kit.controller.sharing
    for act in (lambda: share.start(guest, 8, GuestLimits()), lambda: share.view(guest)):
        with pytest.raises(SettingError):
            act()
    served.share()
    with pytest.raises(SettingError):
        share.end(guest)
    assert served.view().state == "on"
    assert len(served.programs) == before + 1


def test_the_end_cuts_everything_of_guests_and_nothing_of_the_owner(served: Shared) -> None:
    """Tunnel, logins, open streams, running and waiting replies: at once, without a restart."""
    kit = served.kit
    served.share()
    url, guest = served.guest_url, served.login()
    token = guest.cookies[COOKIE]
    opened, closed = threading.Event(), threading.Event()

    def tab() -> None:
        try:
            with guest.stream("GET", "/gradio_api/heartbeat/tab1") as stream:
                for _ in stream.iter_lines():
                    opened.set()
        except httpx.HTTPError:
            pass
        closed.set()

    threading.Thread(target=tab, daemon=True).start()
    assert opened.wait(10)
    assert served.view().guests == 1
    gate = held(kit)
    theirs = kit.controller.session("g1", "guest", "share:1")
    running = kit.controller.desk.send(theirs, "hello", OPTIONS)
    until(lambda: kit.engine.running)
    waiting = kit.controller.desk.send(
        kit.controller.session("g2", "guest", "share:2"), "me too", OPTIONS
    )
    mine = kit.controller.desk.send(kit.owner(), "mine", OPTIONS)
    served.end()
    gate.set()
    assert closed.wait(3)
    assert served.programs[-1].poll() is not None
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/health", headers={"cookie": f"{COOKIE}={token}"}, timeout=2)
    assert finish(running).reason == "cancelled"
    assert finish(waiting).reason == "cancelled"
    assert finish(mine).reason == "end"
    assert ask(served.url) == 200
    with pytest.raises(SettingError, match="Sharing has ended"):
        kit.controller.desk.send(kit.controller.session("g1", "guest", "share:1"), "again", OPTIONS)
    assert served.view().notice
    guest.close()


def test_shared_again_is_another_link_with_another_password(served: Shared) -> None:
    first = served.share()
    with pytest.raises(BusyError):
        served.kit.controller.sharing.start(served.kit.owner(), 8, GuestLimits())
    old = served.login()
    cookie = {"cookie": f"{COOKIE}={old.cookies[COOKIE]}"}
    served.end()
    second = served.share()
    assert first.login is not None
    assert second.login is not None
    assert second.login.password != first.login.password
    assert second.key != first.key
    assert ask(served.guest_url, headers=cookie) == 401
    form = {"username": first.login.user, "password": first.login.password}
    assert httpx.post(f"{served.guest_url}/login", data=form, timeout=20).status_code == 401
    old.close()


def test_it_ends_by_itself_when_the_time_is_up(
    served: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [time.time()]
    monkeypatch.setattr(served.kit.controller.sharing, "_clock", lambda: now[0])
    assert 3599 < served.share(hours=1).left <= 3600
    assert ask(served.guest_url) == 401
    now[0] += 3600
    until(lambda: served.view().state == "off", 5)
    assert "time was up" in served.view().notice
    until(lambda: served.programs[-1].poll() is not None)


def test_it_says_so_when_the_tunnel_closes(served: Shared) -> None:
    served.share()
    served.programs[-1].kill()
    until(lambda: served.view().state == "off", 5)
    assert "tunnel closed" in served.view().notice


@pytest.mark.parametrize("hours", [0, -1, 73, float("nan")])
def test_hours_that_no_link_lasts_are_refused(served: Shared, hours: float) -> None:
    with pytest.raises(SettingError, match="hours"):
        served.kit.controller.sharing.start(served.kit.owner(), hours, GuestLimits())


def test_a_link_that_cannot_be_made_leaves_nothing_open(
    served: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> str:
        raise OSError("no network")

    monkeypatch.setattr("app.share.networking.setup_tunnel", fails)
    view = served.share()
    assert view.state == "off"
    assert view.error is not None
    assert "no network" in view.error.message
    with pytest.raises(httpx.ConnectError):
        ask(served.guest_url)


def test_ended_while_it_is_being_made_there_is_none(
    served: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = threading.Event(), threading.Event()

    def slow(*_: object) -> str:
        begun.set()
        go.wait(10)
        return "https://late.example"

    monkeypatch.setattr("app.share.networking.setup_tunnel", slow)
    served.kit.controller.sharing.start(served.kit.owner(), 8, GuestLimits())
    assert begun.wait(5)
    assert served.view().state == "opening"
    served.end()
    go.set()
    assert served.view().state == "off"
    with pytest.raises(httpx.ConnectError):
        ask(served.guest_url)


def test_a_guest_too_many_is_told_at_the_login(served: Shared) -> None:
    view = served.share(GuestLimits(guests=1))
    assert view.login is not None
    with served.login():
        form = {"username": view.login.user, "password": view.login.password}
        answer = httpx.post(f"{served.guest_url}/login", data=form, timeout=20)
        assert answer.status_code == 429
        assert "1 guest is here already" in answer.text


def test_programs_need_the_links_own_key_and_are_guests(served: Shared) -> None:
    view = served.share(GuestLimits(reply_tokens=5, tokens=5))
    body = {"model": "smollm2-135m-instruct", "messages": [{"role": "user", "content": "hi"}]}
    url = f"{served.guest_url}/v1/chat/completions"
    assert httpx.post(url, json=body, timeout=20).status_code == 401
    bearer = {"authorization": f"Bearer {view.key}"}
    answer = httpx.post(url, json=body, headers=bearer, timeout=20)
    assert answer.json()["usage"]["completion_tokens"] == 5
    again = httpx.post(url, json=body, headers=bearer, timeout=20)
    assert again.status_code == 429
    assert "All 5 tokens" in again.text
    assert httpx.post(f"{served.url}/v1/chat/completions", json=body, timeout=20).status_code == 200


def test_the_owner_comes_by_the_link_with_a_login_they_chose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = Login("me", "correct horse", "owner")
    with sharing(tmp_path, monkeypatch, owner=chosen) as served:
        served.share()
        with served.login(chosen) as owner:
            assert owner.get("/health").json()["target"]
