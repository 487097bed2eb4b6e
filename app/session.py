"""Who has the page open: one session a tab, with its role and its conversation.

Knows nothing of engines. A tab whose connection drops is kept for a while: it may come back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from app.passing import Passing
from app.tray import Tray
from app.words import tr
from specdec.errors import SettingError

Access = Literal["owner", "guest"]
LINGER_S = 15.0
"""How long a reply goes on with nobody watching: long enough for a reload."""
FORGET_S = 3600.0
"""A tab that left is forgotten after this; nothing of a guest's runs that long."""


@dataclass
class Session:
    """One tab. `conversation` is an id in the history, "" for a new one; guests use `passing`.

    `search` is what the list is narrowed to, `opened` the replies whose tokens are shown,
    `unfinished`: a reply or a comparison went on when the tab was last drawn. `who` is the login
    behind the tab, "owner" or a guest's name: limits count by it. `ended`: it may do nothing more.
    `drawn` is how much of the conversation the tab shows for good (`app.ui.halves`).
    """

    key: str
    role: Access
    who: str = ""
    conversation: str = ""
    search: str = ""
    opened: set[int] = field(default_factory=set)
    unfinished: bool = False
    ended: bool = False
    drawn: tuple[int, int, str] = (0, 0, "")
    passing: Passing = field(init=False)
    tray: Tray = field(default_factory=Tray)

    def __post_init__(self) -> None:
        self.who = _who(self.key, self.role, self.who)
        self.passing = Passing(f"guest-{self.key}")


class Sessions:
    """All open tabs."""

    def __init__(self, linger: float = LINGER_S, clock: Callable[[], float] = time.monotonic):
        self._linger = linger
        self._clock = clock
        self._open: dict[str, Session] = {}
        self._parked: dict[str, tuple[Session, float]] = {}  # by key, and when the tab left
        self._left: dict[str, float] = {}  # party -> when its last tab closed
        self._lock = threading.Lock()

    def get(self, key: str, role: Access, who: str = "") -> Session:
        """The tab's session, made at first sight; one that left is taken back as it was.

        Raises SettingError for another login's key.
        """
        who = _who(key, role, who)
        with self._lock:
            self._forget()
            session = self._open.get(key)
            if session is None:
                parked, _ = self._parked.get(key, (None, 0.0))
                if parked is not None and (parked.role, parked.who) == (role, who):
                    del self._parked[key]
                    session = parked
                else:
                    session = Session(key, role, who)
                self._open[key] = session
            elif (session.role, session.who) != (role, who):
                raise SettingError(tr("This tab belongs to another login."), tr("Reload the page."))
            self._left.pop(_party(session), None)
            return session

    def leave(self, key: str) -> None:
        """The tab was closed, or only its connection dropped: nobody can tell which."""
        with self._lock:
            self._forget()
            session = self._open.pop(key, None)
            if session is None:
                return
            session.drawn = (0, 0, "")  # what was sent last may not have arrived
            self._parked[key] = (session, self._clock())
            if not any(_party(s) == _party(session) for s in self._open.values()):
                self._left[_party(session)] = self._clock()

    def end(self, way: str) -> None:
        """The guests who came this way are gone for good: their replies end within one round."""
        with self._lock:
            parked = {key: session for key, (session, _) in self._parked.items()}
            for key, session in [*self._open.items(), *parked.items()]:
                if session.role == "guest" and session.who.startswith(f"{way}:"):
                    session.ended = True
                    self._open.pop(key, None)
                    self._parked.pop(key, None)

    def gone(self, session: Session) -> bool:
        """Nobody who could see this session's replies has been here for a while."""
        if session.ended:
            return True
        with self._lock:
            left = self._left.get(_party(session))
            return left is not None and self._clock() - left > self._linger

    def _forget(self) -> None:
        old = self._clock() - FORGET_S
        self._left = {party: at for party, at in self._left.items() if at > old}
        self._parked = {key: row for key, row in self._parked.items() if row[1] > old}


def _who(key: str, role: Access, who: str) -> str:
    """The owner is one, however often logged in; a guest without a login is known by the tab."""
    return "owner" if role == "owner" else who or key


def _party(session: Session) -> str:
    """All the owner's tabs show the same conversations; every guest is alone."""
    return "owner" if session.role == "owner" else session.key
