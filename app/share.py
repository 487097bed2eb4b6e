"""The public link: gradio's tunnel, with a deadline. Knows nothing of the page behind it."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable

from gradio import networking, tunneling

DEADLINE_S = 45.0
EXPOSES = (
    "Anyone with the link and the guest password can chat with the model on this machine, using "
    "its processor; the traffic passes through gradio's servers. Guests see no chats of yours and "
    "cannot load models. The link ends with this program, or after about a week."
)


def share(
    to: tuple[str, int], say: Callable[[str], None], deadline: float = DEADLINE_S
) -> threading.Thread:
    """Make the link in the background and `say` it, or why there is none. Local use goes on.

    `to` is the host and port the tunnel ends at.
    """
    thread = threading.Thread(target=_share, args=(to, say, deadline), name="share", daemon=True)
    thread.start()
    return thread


def _share(to: tuple[str, int], say: Callable[[str], None], deadline: float) -> None:
    answer: list[str | Exception] = []
    late = threading.Event()

    def work() -> None:
        try:
            answer.append(networking.setup_tunnel(*to, secrets.token_urlsafe(32), None, None))
        except Exception as error:
            answer.append(error)
        if late.is_set():  # the user was told that there is no link
            close_tunnels()

    worker = threading.Thread(target=work, name="tunnel", daemon=True)
    worker.start()
    worker.join(deadline)
    found = answer[0] if answer else TimeoutError(f"no answer within {deadline:g} s")
    if isinstance(found, str):
        say(f"Public link: {found}\n{EXPOSES}")
        return
    late.set()  # before closing: a tunnel that opens from here on is closed by the worker
    close_tunnels()
    reason = found.__cause__ or found
    say(
        f"No public link: {found} ({type(reason).__name__}: {reason}). "
        "This machine's own address goes on working; try --share again with a network."
    )


def close_tunnels() -> None:
    """End every tunnel program of this process."""
    for tunnel in tunneling.CURRENT_TUNNELS:
        if tunnel.proc is not None:
            tunnel.proc.kill()
            tunnel.proc = None
