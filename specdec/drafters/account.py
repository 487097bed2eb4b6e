"""What drafting may still cost: credit, gains, and a share of plain time. Knows seconds only."""

from __future__ import annotations

SHARE = 0.018  # of the time of plain steps may go to asking again whether drafting pays
CREDIT = 6.0  # plain steps that may be lost before anything was gained
_GRANT = 32.0  # plain steps of gains that are kept for reading; more would license a long loss


class Account:
    """Three purses, in seconds; none is ever overdrawn.

    `drafting` pays for drafts that are expected to pay: it begins with CREDIT plain steps.
    `trying` pays for drafts that are not: every plain step adds SHARE of itself. What both do not
    hold of a gain goes to `reading`, which pays for what a draft must read before it drafts. So all
    losses together are at most CREDIT steps, SHARE of plain time, and what was gained before:
    over 512 tokens 3 % of plain decoding.
    """

    def __init__(self, step: float) -> None:
        self._step = step
        self.drafting = CREDIT * step
        self.trying = 0.0
        self.reading = 0.0

    def affords(self, trying: bool, loss: float, reading: float = 0.0) -> bool:
        """Whether the purse pays `loss` seconds, and with the one for reading also `reading`."""
        purse = self.trying if trying else self.drafting
        return purse >= loss + max(0.0, reading - self.reading)

    def read(self, trying: bool, seconds: float) -> None:
        """Something was read; it is paid from what was kept for it first."""
        kept = min(seconds, self.reading)
        self.reading -= kept
        self._add(trying, kept - seconds)

    def book(self, trying: bool, seconds: float) -> None:
        """What a drafted round gained, or lost when below 0."""
        self._add(trying, seconds)

    def plain(self) -> None:
        """A plain step was made."""
        self.trying = min(self.trying + SHARE * self._step, 2 * CREDIT * self._step)

    def _add(self, trying: bool, seconds: float) -> None:
        """A gain fills its own purse, then `drafting`, then the one for reading."""
        most = 2 * CREDIT * self._step
        if trying:
            self.trying += seconds
            seconds = max(0.0, self.trying - most)
            self.trying -= seconds
        self.drafting += seconds
        over = max(0.0, self.drafting - most)
        self.drafting -= over
        self.reading = min(self.reading + over, _GRANT * self._step)
