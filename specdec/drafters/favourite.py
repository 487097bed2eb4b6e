"""Which source drafts mostly in a conversation, and the line that says when that changes.

Knows names, tokens and costs; nothing of how a source is chosen.
"""

from __future__ import annotations

from collections.abc import Mapping

_FADE = 0.93  # an outcome 10 rounds ago counts half
_MOSTLY = 0.66  # of the latest drafted rounds are one source's: it is the favourite
_ROUNDS = 8  # drafted rounds before there is one, and between two lines about it


class Favourite:
    """Shares of the drafted rounds, and tokens a round by source, the latest counting most."""

    def __init__(self) -> None:
        self._share: dict[str, float] = {}
        self._gave: dict[str, tuple[float, float]] = {}  # tokens and rounds
        self._rounds = 0  # since the last line
        self._now = ""

    def note(self, source: str, tokens: int) -> None:
        """A drafted round gave so many tokens, the bonus token included."""
        for name in self._share:
            self._share[name] *= _FADE
        self._share[source] = self._share.get(source, 0.0) + 1 - _FADE
        gave, rounds = self._gave.get(source, (0.0, 0.0))
        self._gave[source] = gave * _FADE + tokens, rounds * _FADE + 1
        self._rounds += 1

    def news(self, costs: Mapping[str, float]) -> str:
        """Once where another source is the favourite now; `costs` are plain steps a token."""
        whole = sum(self._share.values())
        mostly = [name for name, share in self._share.items() if share > _MOSTLY * whole]
        if self._rounds < _ROUNDS or not mostly or mostly[0] == self._now:
            return ""
        first, self._now, self._rounds = not self._now, mostly[0], 0
        cost = costs.get(self._now, 0.0)
        at = f"at {cost:.2f} of a step each" if cost else "for nothing"
        gave = f"{self._tokens(self._now):.1f} tokens a round {at}"
        others = [f"{n} gave {self._tokens(n):.1f}" for n in self._gave if n != self._now]
        said = f"auto: {'drafts with' if first else 'moved to'} {self._now}: {gave}"
        return "; ".join((said, ", ".join(others))) if others else said

    def _tokens(self, source: str) -> float:
        gave, rounds = self._gave[source]
        return gave / rounds
