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

from app.words import tr, tr_n
from specdec.errors import BusyError

AccessRole = Literal["owner", "guest"]
Way = Literal["network", "share"]
"""By which door somebody comes: the program's own address, or a link that was made public."""

ATTEMPTS = 8
REFILL_S = 30.0
SESSION_S = 7 * 24 * 3600.0
MAX_SESSIONS = 500
AWAY_S = 120.0
"""A guest without a request for so long has left; an open page always has one."""
MAX_REQUESTS = 48
"""Requests of one guest at a time: several tabs, and no flood."""


@dataclass(frozen=True, slots=True)
class Login:
    """A name, its password and what it may do."""

    user: str
    password: str
    role: AccessRole


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who asks. `name` is "owner", or a guest's own, which begins with the way in."""

    role: AccessRole
    name: str


OWNER = Visitor("owner", "owner")


@dataclass(slots=True)
class _Session:
    visitor: Visitor
    end: float
    seen: float
    requests: int = 0


def make_guest(owner: str = "") -> Login:
    """A login for guests with a fresh password, under another name than the owner's."""
    return Login("guest" if owner != "guest" else "visitor", secrets.token_urlsafe(9), "guest")


def make_logins(auth: str | None = None) -> tuple[Login, Login]:
    """One login for the owner (`auth` is NAME:PASSWORD, None makes one up) and one for guests."""
    user, _, password = auth.partition(":") if auth else ("owner", "", secrets.token_urlsafe(12))
    return Login(user, password, "owner"), make_guest(user)


class Access:
    """Without logins the door is open and everyone is the owner. Thread-safe.

    With logins, programs need `key`, which opens nothing but `/v1`. `most`: guests at once.
    """

    def __init__(
        self,
        logins: Sequence[Login] = (),
        clock: Callable[[], float] = time.monotonic,
        way: Way = "network",
        most: int | None = None,
    ) -> None:
        self.logins = tuple(logins)
        self.key = f"sk-specdec-{secrets.token_urlsafe(32)}" if logins else ""
        self.open = not logins
        self.way = way
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._ended = False
        self._sessions: dict[str, _Session] = {}  # by token, oldest first
        self._attempts: dict[str, tuple[float, float]] = {}  # name -> attempts left, when counted

    def login(self, user: str, password: str) -> str | None:
        """A session token, or None. Raises BusyError after too many attempts, or with no room."""
        with self._lock:
            known = next((login for login in self.logins if login.user == user), None)
            self._spend(user if known else "")  # all unknown names share one budget
            expected = known.password if known else secrets.token_urlsafe(12)
            fits = hmac.compare_digest(password.encode(), expected.encode())
            if known is None or not fits or self._ended:
                return None
            if known.role == "guest":
                self._check_room()
            self._attempts.pop(user, None)
            token = secrets.token_urlsafe(32)
            guest = Visitor("guest", f"{self.way}:{secrets.token_hex(8)}")
            visitor = OWNER if known.role == "owner" else guest
            self._sessions[token] = _Session(visitor, self._clock() + SESSION_S, self._clock())
            while len(self._sessions) > MAX_SESSIONS:
                self._sessions.pop(next(iter(self._sessions)))
            return token

    def logout(self, token: str) -> None:
        with self._lock:
            self._sessions.pop(token, None)

    def visitor(self, token: str | None) -> Visitor | None:
        """Who bears a session token; None = nobody."""
        if self.open:
            return None if self._ended else OWNER
        with self._lock:
            session = self._sessions.get(token or "")
            return session.visitor if session and self._clock() < session.end else None

    def role(self, token: str | None) -> AccessRole | None:
        """What the bearer of a session token is; None = nobody."""
        visitor = self.visitor(token)
        return visitor.role if visitor else None

    def enter(self, token: str | None) -> None:
        """A request begins. Raises BusyError for a guest who finds no room, or asks too much."""
        with self._lock:
            session = self._sessions.get(token or "")
            if session is None:
                return
            if session.visitor.role == "guest":
                if not self._is_here(session):
                    self._check_room()
                if session.requests >= MAX_REQUESTS:
                    raise BusyError(tr("Too many requests at once."), tr("Close some tabs."))
            session.requests += 1
            session.seen = self._clock()

    def leave(self, token: str | None) -> None:
        """A request that entered is over."""
        with self._lock:
            session = self._sessions.get(token or "")
            if session is not None:
                session.requests = max(0, session.requests - 1)
                session.seen = self._clock()

    def here(self) -> int:
        """Guests who have the page open, or had it a moment ago."""
        with self._lock:
            return self._here()

    def opens(self, key: str) -> bool:
        """Whether an API key lets a program in. 32 random bytes are beyond guessing: no limit."""
        if self._ended:
            return False
        return self.open or hmac.compare_digest(key.encode(), self.key.encode())

    def end(self) -> None:
        """From now on nobody is let in, whatever they bear."""
        with self._lock:
            self._ended = True
            self._sessions.clear()

    def _here(self) -> int:
        guests = [s for s in self._sessions.values() if s.visitor.role == "guest"]
        return sum(self._is_here(guest) for guest in guests)

    def _is_here(self, session: _Session) -> bool:
        return session.requests > 0 or self._clock() - session.seen < AWAY_S

    def _check_room(self) -> None:
        if self._most is not None and self._here() >= self._most:
            full = tr_n(
                "There is no room: {n} guest is here already.",
                "There is no room: {n} guests are here already.",
                self._most,
            )
            raise BusyError(full, tr("Try again later."))

    def _spend(self, name: str) -> None:
        left, then = self._attempts.get(name, (float(ATTEMPTS), self._clock()))
        now = self._clock()
        left = min(float(ATTEMPTS), left + (now - then) / REFILL_S)
        if left < 1:
            wait = int((1 - left) * REFILL_S) + 1
            raise BusyError(
                tr("Too many attempts to log in."), tr("Try again in {wait} seconds.", wait=wait)
            )
        self._attempts[name] = (left - 1, now)
