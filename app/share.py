"""A tunnel through gradio's servers, with a deadline. Knows nothing of the page behind it."""

from __future__ import annotations

import secrets
import threading
import time
from dataclasses import dataclass

from gradio import networking, tunneling

from app.words import tr
from specdec.errors import SourceError

DEADLINE_S = 45.0


@dataclass(frozen=True, slots=True)
class Tunnel:
    """An open one, which ends at a port of this machine."""

    url: str
    port: int

    def alive(self) -> bool:
        """Whether its program still runs."""
        return any(one.proc is not None and one.proc.poll() is None for one in _of(self.port))

    def close(self) -> None:
        """End its program; safe to call twice."""
        close_tunnels(self.port)


def open_tunnel(
    to: tuple[str, int], unwanted: threading.Event, deadline: float = DEADLINE_S
) -> Tunnel:
    """A tunnel that ends at this host and port. Raises SourceError when there is none.

    One that opens after the deadline, or when it is `unwanted`, is closed at once.
    """
    answer: list[str | Exception] = []
    late = threading.Event()

    def work() -> None:
        try:
            answer.append(networking.setup_tunnel(*to, secrets.token_urlsafe(32), None, None))
        except Exception as error:
            answer.append(error)
        if late.is_set():  # the user was told that there is no link
            close_tunnels(to[1])

    worker = threading.Thread(target=work, name="tunnel", daemon=True)
    worker.start()
    end = time.monotonic() + deadline
    while worker.is_alive() and time.monotonic() < end and not unwanted.is_set():
        worker.join(0.1)
    found = answer[0] if answer else TimeoutError(f"no answer within {deadline:g} s")
    if isinstance(found, str) and not unwanted.is_set():
        return Tunnel(found, to[1])
    late.set()  # before closing: a tunnel that opens from here on is closed by the worker
    close_tunnels(to[1])
    if isinstance(found, str) or unwanted.is_set():
        raise SourceError(tr("The link is not wanted any more."))
    reason = found.__cause__ or found
    raise SourceError(
        tr(
            "No public link: {found} ({name}: {reason}).",
            found=found,
            name=type(reason).__name__,
            reason=reason,
        ),
        tr("This machine's own address goes on working; share again with a network."),
    )


def close_tunnels(port: int) -> None:
    """End every tunnel program of this process that ends at this port."""
    for tunnel in _of(port):
        program, tunnel.proc = tunnel.proc, None
        if program is not None:
            program.kill()
            program.wait(2)


def _of(port: int) -> list[tunneling.Tunnel]:
    return [tunnel for tunnel in tunneling.CURRENT_TUNNELS if tunnel.local_port == port]
