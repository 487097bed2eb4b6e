"""A public link from its making to its end: who may come, for how long. The owner's only.

Knows doors and tunnels as what it is handed, so that neither gradio nor a server is needed here.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from app.access import Access, Login, make_guest
from app.chats import owner_only
from app.guests import HOURS, MAX_HOURS, GuestLimits, Guests
from app.session import Session
from app.words import tr
from specdec.contract import ErrorInfo
from specdec.errors import BusyError, SettingError

FAREWELL_S = 0.6
"""Guests' pages, which can ask for nothing by then, are told before their connections are cut."""
EVERY_S = 0.5
"""How often it is looked whether the time is up or the tunnel is down."""

log = logging.getLogger(__name__)

State = Literal["off", "opening", "on"]


class Door(Protocol):
    """A listener of its own, behind which everybody needs a login."""

    @property
    def reach(self) -> tuple[str, int]:
        """Host and port a tunnel ends at."""

    def close(self) -> None:
        """End it with every connection that came by it."""


class Link(Protocol):
    """A tunnel that is open."""

    @property
    def url(self) -> str:
        """What guests open."""

    def alive(self) -> bool:
        """Whether its program still runs."""

    def close(self) -> None:
        """End it at once."""


OpenDoor = Callable[[Access], Door]
OpenLink = Callable[[tuple[str, int], threading.Event], Link]
"""Raises when there is no link, or when the event says that none is wanted any more."""


@dataclass(frozen=True, slots=True)
class ShareView:
    """What the owner sees. `left`: seconds; `guests`: how many have the page open."""

    state: State = "off"
    link: str = ""
    login: Login | None = None
    key: str = ""
    left: float = 0.0
    guests: int = 0
    used: int = 0
    limits: GuestLimits = field(default_factory=GuestLimits)
    notice: str = ""
    error: ErrorInfo | None = None


@dataclass(slots=True)
class _Shared:
    """One time of sharing."""

    access: Access
    login: Login
    limits: GuestLimits
    ends: float
    over: threading.Event = field(default_factory=threading.Event)
    door: Door | None = None
    link: Link | None = None


class Sharing:
    """Every method may be called from any thread. `dismiss` ends the guests' tabs."""

    def __init__(
        self, guests: Guests, dismiss: Callable[[], None], clock: Callable[[], float] = time.time
    ) -> None:
        """`clock` is the wall's, for a machine that sleeps must not prolong anything."""
        self._guests = guests
        self._dismiss = dismiss
        self._clock = clock
        self._lock = threading.Lock()
        self._now: _Shared | None = None
        self._open: tuple[OpenDoor, OpenLink] | None = None
        self._owner: Login | None = None
        self._last = ShareView()  # how the last time ended

    def attach(self, door: OpenDoor, link: OpenLink, owner: Login | None = None) -> None:
        """How to open a door and a tunnel to it. `owner`: a login of theirs, where one was chosen.

        Until then nothing can be shared.
        """
        self._open, self._owner = (door, link), owner

    def start(self, session: Session, hours: float, limits: GuestLimits) -> None:
        """Make the link in the background. Raises SettingError for a guest, BusyError if there."""
        owner_only(session)
        self.begin(hours, limits)

    def begin(
        self,
        hours: float = HOURS,
        limits: GuestLimits | None = None,
        told: Callable[[ShareView], None] = lambda view: None,
    ) -> threading.Thread:
        """The same for the one who started the program; `told` hears of the link, or of none."""
        check_hours(hours)
        if self._open is None:
            raise SettingError(tr("This program cannot be shared."), tr("Start it with launch.py."))
        limits = limits or GuestLimits()
        login = make_guest(self._owner.user if self._owner else "")
        logins = (login, self._owner) if self._owner else (login,)
        access = Access(logins, way="share", most=limits.guests)
        with self._lock:
            if self._now is not None:
                raise BusyError(tr("It is shared already."), tr("End that first."))
            now = self._now = _Shared(access, login, limits, self._clock() + hours * 3600)
            self._guests.begin(limits)
        thread = threading.Thread(target=self._run, args=(now, told), name="share", daemon=True)
        thread.start()
        return thread

    def end(self, session: Session) -> None:
        """Link, logins and guests' replies end at once. Raises SettingError for a guest."""
        owner_only(session)
        self._end(self._now, ShareView(notice=tr("Sharing has ended. The link leads nowhere.")))

    def close(self) -> None:
        """The same, when the program ends."""
        self._end(self._now, ShareView(), farewell=0.0)

    def view(self, session: Session) -> ShareView:
        """What is shared, and with how many. Raises SettingError for a guest."""
        owner_only(session)
        return self._view()

    def guest_s_left(self) -> float | None:
        """Seconds until guests of a link are sent away; None while nothing is shared."""
        now = self._now
        return max(0.0, now.ends - self._clock()) if now else None

    def _view(self) -> ShareView:
        with self._lock:
            now = self._now
            if now is None:
                return self._last
            if now.link is None:
                return ShareView("opening", limits=now.limits)
            return ShareView(
                "on",
                now.link.url,
                now.login,
                now.access.key,
                max(0.0, now.ends - self._clock()),
                now.access.here(),
                self._guests.used(),
                now.limits,
            )

    def _run(self, now: _Shared, told: Callable[[ShareView], None]) -> None:
        try:
            self._make(now)
        except Exception as error:
            log.info("no public link: %s", error, exc_info=True)
            self._end(now, ShareView(error=ErrorInfo.of(error)))
            told(self._last)
            return
        if not now.over.is_set():
            told(self._view())
        while not now.over.wait(EVERY_S):
            if self._clock() >= now.ends:
                self._end(now, ShareView(notice=tr("The time was up: sharing has ended.")))
            elif now.link is not None and not now.link.alive():
                self._end(now, ShareView(notice=tr("The tunnel closed: sharing has ended.")))

    def _make(self, now: _Shared) -> None:
        """What was opened for one that ended meanwhile is closed again."""
        assert self._open is not None
        open_door, open_link = self._open
        door = open_door(now.access)
        with self._lock:
            now.door = door
        link = None if now.over.is_set() else open_link(door.reach, now.over)
        with self._lock:
            now.link = link
        if now.over.is_set():
            _close(now)

    def _end(self, now: _Shared | None, last: ShareView, farewell: float = FAREWELL_S) -> None:
        with self._lock:
            if now is None or self._now is not now:
                return
            self._now, self._last = None, last
            here = now.access.here()
            now.access.end()  # first: no request is let in from here on
            now.over.set()
        self._guests.end()
        self._dismiss()
        if here:
            time.sleep(farewell)
        _close(now)


def _close(now: _Shared) -> None:
    for opened in (now.link, now.door):
        if opened is not None:
            opened.close()


def check_hours(hours: float) -> None:
    """Raises SettingError outside what a link can last."""
    if not 0 < hours <= MAX_HOURS:
        raise SettingError(
            tr("A link cannot be open for {hours} hours.", hours=f"{hours:g}"),
            tr("Choose up to {n}.", n=f"{MAX_HOURS:g}"),
        )
