"""The tunnel without a network: where it leads, and what becomes of one that comes late."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from gradio import tunneling

from app.share import open_tunnel
from specdec.errors import SourceError
from tests.app.desk_kit import until

TO = ("127.0.0.1", 41_234)


@pytest.fixture
def tunnels(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tunneling.Tunnel]]:
    found: list[tunneling.Tunnel] = []
    monkeypatch.setattr("app.share.tunneling.CURRENT_TUNNELS", found)
    yield found
    for tunnel in found:
        if tunnel.proc is not None:
            tunnel.proc.kill()
            tunnel.proc.wait(5)


def program(port: int) -> tunneling.Tunnel:
    """gradio's own tunnel to a port, with a program that only sleeps."""
    tunnel = tunneling.Tunnel("x.example", 7000, "127.0.0.1", port, "token", None)
    tunnel.proc = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    return tunnel


def test_a_tunnel_that_opens_after_the_deadline_is_closed_at_once(
    monkeypatch: pytest.MonkeyPatch, tunnels: list[tunneling.Tunnel]
) -> None:
    """The user was told that there is no link: then there must be none."""
    go = threading.Event()
    late = program(TO[1])
    running = late.proc
    assert running is not None

    def slow(*_: object) -> str:
        go.wait(10)
        tunnels.append(late)
        return "https://late.example"

    monkeypatch.setattr("app.share.networking.setup_tunnel", slow)
    with pytest.raises(SourceError, match="No public link"):
        open_tunnel(TO, threading.Event(), deadline=0.05)
    assert running.poll() is None
    go.set()
    until(lambda: running.poll() is not None)


def test_a_link_that_nobody_wants_any_more_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, tunnels: list[tunneling.Tunnel]
) -> None:
    go, unwanted = threading.Event(), threading.Event()
    monkeypatch.setattr("app.share.networking.setup_tunnel", lambda *_: str(go.wait(10)))
    unwanted.set()
    with pytest.raises(SourceError, match="not wanted"):
        open_tunnel(TO, unwanted)
    go.set()


def test_it_ends_where_it_is_told_and_closing_ends_its_program_and_no_other(
    monkeypatch: pytest.MonkeyPatch, tunnels: list[tunneling.Tunnel]
) -> None:
    asked: list[tuple[object, ...]] = []
    mine, other = program(TO[1]), program(TO[1] + 1)
    tunnels += [mine, other]
    running = mine.proc
    assert running is not None

    def quick(*arguments: object) -> str:
        asked.append(arguments[:2])
        return "https://x.example"

    monkeypatch.setattr("app.share.networking.setup_tunnel", quick)
    tunnel = open_tunnel(TO, threading.Event())
    assert asked == [TO]
    assert tunnel.url == "https://x.example"
    assert tunnel.alive()
    tunnel.close()
    assert not tunnel.alive()
    assert running.poll() is not None
    assert other.proc is not None
    assert other.proc.poll() is None
    tunnel.close()


def test_the_reason_why_there_is_none_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> str:
        raise RuntimeError("Could not get share link") from OSError("no network")

    monkeypatch.setattr("app.share.networking.setup_tunnel", fails)
    with pytest.raises(SourceError, match="no network") as caught:
        open_tunnel(TO, threading.Event())
    assert "own address goes on working" in caught.value.hint
