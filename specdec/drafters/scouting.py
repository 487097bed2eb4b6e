"""When a draft that was not asked for long is looked at again, and what that may cost.

Text changes: who lost before may win now, and only asking shows it. Knows sources, rounds and
seconds; nothing of tokens, laws or clocks.
"""

from __future__ import annotations

REST = 32
"""Rounds a source was not asked for before it is looked at again."""

LOOK = 2
"""Tokens drafted at the first look."""

SHARE = 0.02  # of the time of all rounds may be lost by looking
_MOST = 8.0  # plain steps that are kept for it; reading what was missed can take as much
_TRIAL = 4  # outcomes from the first look on that count as looking


class Scouting:
    """One conversation's purse for looking, in seconds, and how long each source has rested."""

    def __init__(self, step: float) -> None:
        self._most = _MOST * step
        self._purse = 0.0
        self._round = 0
        self._asked: dict[str, int] = {}  # the round in which it was last asked
        self._trial: dict[str, int] = {}  # outcomes that still count as looking

    def passed(self, seconds: float) -> None:
        """A round took so long."""
        self._round += 1
        self._purse = min(self._purse + SHARE * seconds, self._most)

    def rest(self, source: str) -> int:
        """Rounds since it was asked; since the conversation began, if it never was."""
        return self._round - self._asked.get(source, 0)

    def affords(self, loss: float) -> bool:
        """Whether the purse would pay a look that finds nothing."""
        return self._purse >= loss

    def ask(self, source: str, look: bool = False) -> None:
        """It drafts this round."""
        self._asked[source] = self._round
        if look:
            self._trial[source] = _TRIAL

    def looking(self, source: str) -> bool:
        """Whether its next outcome still counts as looking."""
        return self._trial.get(source, 0) > 0

    def outcome(self, source: str, lost: float) -> None:
        """`lost` seconds against what the same tokens take otherwise; below 0 is a gain."""
        if self.looking(source):
            self._trial[source] -= 1
            self._purse -= max(0.0, lost)
