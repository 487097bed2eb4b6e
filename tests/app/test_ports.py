"""Ports: the next free one, the true address, at once again after a restart (E12)."""

from __future__ import annotations

import asyncio
import errno
import socket

import pytest

from app import ports
from app.ports import address, is_loopback, listen
from specdec.errors import SettingError


def test_a_taken_port_means_the_next_one() -> None:
    with listen("127.0.0.1", 0) as taken:
        first = taken.getsockname()[1]
        with listen("127.0.0.1", first) as other:
            port = other.getsockname()[1]
            assert first < port < first + 100
            assert address(other) == f"http://127.0.0.1:{port}"
            with socket.create_connection(("127.0.0.1", port), timeout=2):
                pass  # already listening: nobody can take it in between


def test_a_closed_port_is_free_at_once() -> None:
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            server, _ = first.accept()
            server.close()  # leaves the port in TIME_WAIT on this side
            client.recv(1)
    with listen("127.0.0.1", port) as again:
        assert again.getsockname()[1] == port


@pytest.mark.parametrize("host", ["no such host", "256.1.1.1", "203.0.113.7"])
def test_a_wrong_host_is_one_clear_error(host: str) -> None:
    with pytest.raises(SettingError) as caught:
        listen(host, 0)
    assert "127.0.0.1" in caught.value.hint


def test_a_port_the_system_keeps_for_itself_means_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Windows reserves ranges of high ports and answers EACCES; below 1024 it is a real no."""
    with listen("127.0.0.1", 0) as probe:
        first = probe.getsockname()[1]
    bind = ports._bind

    def reserved(family: int, host: str, port: int) -> socket.socket:
        if port in (first, 80):
            raise PermissionError(errno.EACCES, "reserved")
        return bind(family, host, port)

    monkeypatch.setattr(ports, "_bind", reserved)
    with listen("127.0.0.1", first) as other:
        assert other.getsockname()[1] > first
    with pytest.raises(SettingError, match="port 80") as caught:
        listen("127.0.0.1", 80)
    assert "1023" in caught.value.hint


def test_no_free_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.ports.TRIES", 1)
    with listen("127.0.0.1", 0) as taken, pytest.raises(SettingError, match="No free port"):
        listen("127.0.0.1", taken.getsockname()[1])


def test_the_last_port_is_not_passed() -> None:
    with listen("127.0.0.1", 65535), pytest.raises(SettingError, match="65535"):
        listen("127.0.0.1", 65535)


def test_the_address_of_every_interface_is_one_a_browser_opens() -> None:
    with listen("0.0.0.0", 0) as listener:
        assert address(listener) == f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("localhost", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.2", False),
        ("not a host", False),
    ],
)
def test_loopback(host: str, local: bool) -> None:
    assert is_loopback(host) is local


def test_an_answer_does_not_wait_for_the_last_ones_receipt() -> None:
    """asyncio turns Nagle off only where a socket says that it is TCP: 44 ms an answer else."""

    async def accepted() -> int:
        seen: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def came(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            sock = writer.get_extra_info("socket")
            seen.set_result(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        with listen("127.0.0.1", 0) as listener:
            async with await asyncio.start_server(came, sock=listener):
                _, writer = await asyncio.open_connection(*listener.getsockname())
                writer.close()
                return await seen

    assert asyncio.run(accepted())
