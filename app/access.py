"""Who may come in: logins, sessions and the limit on attempts. Knows nothing of HTTP or gradio.

No decision here looks at an address: through the tunnel everybody comes from 127.0.0.1.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from specdec.errors import BusyError

AccessRole = Literal["owner", "guest"]

ATTEMPTS = 8
REFILL_S = 30.0
SESSION_S = 7 * 24 * 3600.0
MAX_SESSIONS = 500


@dataclass(frozen=True, slots=True)
class Login:
    """A name, its password and what it may do."""

    user: str
    password: str
    role: AccessRole


def make_logins(auth: str | None = None) -> tuple[Login, Login]:
    """One login for the owner (`auth` is NAME:PASSWORD, None makes one up) and one for guests."""
    user, _, password = auth.partition(":") if auth else ("owner", "", secrets.token_urlsafe(12))
    guest = "guest" if user != "guest" else "visitor"
    return Login(user, password, "owner"), Login(guest, secrets.token_urlsafe(9), "guest")


class Access:
    """Without logins the door is open and everyone is the owner. Thread-safe.

    With logins, programs need `key`, which opens nothing but `/v1`.
    """

    def __init__(
        self, logins: Sequence[Login] = (), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.logins = tuple(logins)
        self.key = f"sk-specdec-{secrets.token_urlsafe(32)}" if logins else ""
        self._clock = clock
        self._lock = threading.Lock()
        self._sessions: dict[str, tuple[AccessRole, float]] = {}  # token -> role, end; oldest first
        self._attempts: dict[str, tuple[float, float]] = {}  # name -> attempts left, when counted

    @property
    def open(self) -> bool:
        return not self.logins

    def login(self, user: str, password: str) -> str | None:
        """A session token, or None. Raises BusyError after too many attempts for one name."""
        with self._lock:
            known = next((login for login in self.logins if login.user == user), None)
            self._spend(user if known else "")  # all unknown names share one budget
            expected = known.password if known else secrets.token_urlsafe(12)
            fits = hmac.compare_digest(password.encode(), expected.encode())
            if known is None or not fits:
                return None
            self._attempts.pop(user, None)
            token = secrets.token_urlsafe(32)
            self._sessions[token] = (known.role, self._clock() + SESSION_S)
            while len(self._sessions) > MAX_SESSIONS:
                self._sessions.pop(next(iter(self._sessions)))
            return token

    def logout(self, token: str) -> None:
        with self._lock:
            self._sessions.pop(token, None)

    def role(self, token: str | None) -> AccessRole | None:
        """What the bearer of a session token is; None = nobody."""
        if self.open:
            return "owner"
        with self._lock:
            role, end = self._sessions.get(token or "", (None, 0.0))
        return role if self._clock() < end else None

    def opens(self, key: str) -> bool:
        """Whether an API key lets a program in. 32 random bytes are beyond guessing: no limit."""
        return self.open or hmac.compare_digest(key.encode(), self.key.encode())

    def _spend(self, name: str) -> None:
        left, then = self._attempts.get(name, (float(ATTEMPTS), self._clock()))
        now = self._clock()
        left = min(float(ATTEMPTS), left + (now - then) / REFILL_S)
        if left < 1:
            wait = int((1 - left) * REFILL_S) + 1
            raise BusyError("Too many attempts to log in.", f"Try again in {wait} seconds.")
        self._attempts[name] = (left - 1, now)
