"""The public link without a network: where it leads, and what becomes of one that comes late."""

from __future__ import annotations

import threading

import pytest

from app import ports
from app.share import share
from tests.app.desk_kit import until


class Program:
    """Stands for the tunnel program."""

    def __init__(self) -> None:
        self.killed = False

    def kill(self) -> None:
        self.killed = True


class Tunnel:
    def __init__(self) -> None:
        self.proc: Program | None = Program()


@pytest.fixture
def tunnels(monkeypatch: pytest.MonkeyPatch) -> list[Tunnel]:
    found: list[Tunnel] = []
    monkeypatch.setattr("app.share.tunneling.CURRENT_TUNNELS", found)
    return found


def test_a_tunnel_that_opens_after_the_deadline_is_closed_at_once(
    monkeypatch: pytest.MonkeyPatch, tunnels: list[Tunnel]
) -> None:
    """The user was told that there is no link: then there must be none."""
    go, tunnel = threading.Event(), Tunnel()
    program = tunnel.proc
    assert program is not None

    def slow(*_: object) -> str:
        go.wait(10)
        tunnels.append(tunnel)
        return "https://late.example"

    monkeypatch.setattr("app.share.networking.setup_tunnel", slow)
    said: list[str] = []
    share(("127.0.0.1", 1), said.append, deadline=0.05).join(5)
    assert said[0].startswith("No public link")
    assert not program.killed
    go.set()
    until(lambda: program.killed)
    assert len(said) == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "0.0.0.0"])
def test_the_tunnel_ends_where_the_server_listens(
    monkeypatch: pytest.MonkeyPatch, tunnels: list[Tunnel], host: str
) -> None:
    asked: list[tuple[object, ...]] = []

    def quick(*arguments: object) -> str:
        asked.append(arguments[:2])
        return "https://x.example"

    monkeypatch.setattr("app.share.networking.setup_tunnel", quick)
    said: list[str] = []
    with ports.listen(host, 0) as listener:
        share(ports.reach(listener), said.append).join(5)
        port = listener.getsockname()[1]
    assert asked == [("127.0.0.1" if host == "0.0.0.0" else host, port)]
    assert said[0].startswith("Public link: https://x.example")
