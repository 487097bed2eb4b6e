"""A listening socket, bound before its address is printed. Standard library only."""

from __future__ import annotations

import errno
import ipaddress
import socket
import sys

from specdec.errors import SettingError

TRIES = 100


def listen(host: str, first: int) -> socket.socket:
    """A bound, listening socket on the first free port from `first` on (0: any free one).

    The socket itself is handed on, so nobody can take the port in between. Raises SettingError
    when the address is not this machine's, a low port is forbidden, or none of `TRIES` is free.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, first, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise SettingError(
            f"--host {host} is not an address: {error}.", "Try 127.0.0.1 or 0.0.0.0."
        ) from error
    name = str(address[0])
    for port in range(first, min(first + TRIES, 65536) if first else 1):
        try:
            return _bind(family, name, port)
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, getattr(errno, "WSAEADDRINUSE", -1)):
                continue
            if error.errno == errno.EACCES and port >= 1024:
                continue  # Windows keeps ranges of ports for itself, and says this
            if error.errno in (errno.EACCES, errno.EPERM):
                hint = "Choose a port above 1023 with --port."
            else:
                hint = "Choose another --host, for instance 127.0.0.1."
            raise SettingError(f"Cannot listen on {name}, port {port}: {error}.", hint) from error
    raise SettingError(
        f"No free port from {first} to {min(first + TRIES, 65536) - 1}.", "Choose one with --port."
    )


def address(listener: socket.socket) -> str:
    """The address a browser on this machine opens."""
    host, port = reach(listener)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def reach(listener: socket.socket) -> tuple[str, int]:
    """Host and port by which this machine itself reaches the listener."""
    host, port = listener.getsockname()[:2]
    ip = ipaddress.ip_address(host)
    if ip.is_unspecified:
        ip = ipaddress.ip_address("127.0.0.1" if ip.version == 4 else "::1")
    return str(ip), int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches that address. A name counts by what it resolves to."""
    try:
        found = {info[4][0] for info in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError):
        return False
    return bool(found) and all(ipaddress.ip_address(ip).is_loopback for ip in found)


def _bind(family: int, host: str, port: int) -> socket.socket:
    # named as TCP: else asyncio leaves Nagle on, and every answer waits 40 ms for its body
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform == "win32":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:  # lets a restart take the port back at once; Windows would share it instead
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
    except BaseException:
        listener.close()
        raise
    return listener
