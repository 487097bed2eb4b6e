"""What guests may take of this machine, and what they took. Knows nothing of pages or engines."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, fields, replace

from app.access import Way
from app.words import marked, tr
from specdec.errors import BusyError, SettingError
from specdec.request import Sampling

MAX_HOURS = 72.0
"""gradio promises no link for longer than three days."""
HOURS = 8.0


@dataclass(frozen=True, slots=True)
class GuestLimits:
    """None: no bound. Raises SettingError for a bound that lets nobody do anything.

    `guests` at once: the program is tested with twenty. `turns`: messages of one guest, an
    evening's talk; logging in again begins anew, which `tokens` bounds. `reply_tokens`: two pages,
    so that nobody waits long. `tokens` of all replies together: some six hours at 10 a second.
    """

    guests: int | None = 20
    turns: int | None = 50
    reply_tokens: int | None = 1024
    tokens: int | None = 200_000

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if value is not None and value < 1:
                raise SettingError(
                    tr("The limit on {name} is {value}.", name=tr(LIMITS[one.name]), value=value),
                    tr("It must be 1 or more."),
                )


LIMITS = {
    "guests": marked("guests at once"),
    "turns": marked("messages a guest"),
    "reply_tokens": marked("tokens a reply"),
    "tokens": marked("tokens in all"),
}
AT_HOME = GuestLimits(guests=None, turns=None, tokens=None)
"""Guests on one's own network: only what keeps the owner's turn short."""


@dataclass(slots=True)
class _Count:
    limits: GuestLimits
    turns: dict[str, int] = field(default_factory=dict)  # by guest
    tokens: int = 0


class Guests:
    """Every method may be called from any thread. A guest's name begins with the way in."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._home = _Count(AT_HOME)
        self._shared: _Count | None = None

    def begin(self, limits: GuestLimits) -> None:
        """Guests of a public link may ask from now on; nothing is counted yet."""
        with self._lock:
            self._shared = _Count(limits)

    def end(self) -> None:
        """Guests of the public link may ask for nothing more."""
        with self._lock:
            self._shared = None

    def ask(self, who: str, turn: bool = True) -> None:
        """One more message of a guest. Raises BusyError when it is one too many, or none is left.

        A comparison is no `turn`, but its tokens count.
        """
        if who == "owner":
            return
        with self._lock:
            count = self._count(who)
            limits, done = count.limits, count.turns.get(who, 0)
            if limits.tokens is not None and count.tokens >= limits.tokens:
                raise BusyError(
                    tr(
                        "All {tokens} tokens that guests may have are used.",
                        tokens=f"{limits.tokens:,}",
                    ),
                    tr("Ask the owner for more."),
                )
            if turn and not who.endswith(PROGRAMS):
                if limits.turns is not None and done >= limits.turns:
                    raise BusyError(
                        tr(
                            "You have sent all {turns} messages that a guest may send.",
                            turns=limits.turns,
                        ),
                        tr("Ask the owner for more."),
                    )
                count.turns[who] = done + 1

    def cut(self, who: str, sampling: Sampling) -> Sampling:
        """The settings with no longer a reply than this guest may have."""
        if who == "owner":
            return sampling
        with self._lock:
            most = self._count(who).limits.reply_tokens
        if most is None or sampling.max_tokens <= most:
            return sampling
        return replace(sampling, max_tokens=most)

    def spent(self, who: str, tokens: int) -> None:
        """A guest's reply is over. Those that run or wait when the last is spent still end."""
        if who == "owner":
            return
        with self._lock:
            if not _shared(who):
                self._home.tokens += tokens
            elif self._shared is not None:
                self._shared.tokens += tokens

    def used(self) -> int:
        """Tokens that guests of the public link had."""
        with self._lock:
            return self._shared.tokens if self._shared else 0

    def left(self, who: str) -> int | None:
        """Messages this guest may still send; None: no bound."""
        if who == "owner":
            return None
        with self._lock:
            count = self._home if not _shared(who) else self._shared
            if count is None or count.limits.turns is None:
                return None
            return max(0, count.limits.turns - count.turns.get(who, 0))

    def _count(self, who: str) -> _Count:
        if not _shared(who):
            return self._home
        if self._shared is None:
            raise SettingError(tr("Sharing has ended."), tr("Ask the owner for a new link."))
        return self._shared


PROGRAMS = ":programs"
SHARE: Way = "share"


def _shared(who: str) -> bool:
    return who.startswith(f"{SHARE}:")
