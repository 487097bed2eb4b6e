"""What became of one conversation's drafts, by kind: what is known, and when it holds no more.

Knows counts only; nothing of costs or of who drafts next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from specdec.drafters.acceptance import Acceptance

_DECAY = 0.96  # an outcome 17 rounds ago counts half
_UNLIKELY = 0.001  # a run of failures less likely than this, by what is known, is another text

Prior = Callable[[str, float], Sequence[float]]
"""The rates of a kind over all conversations, from its hope."""


class Outcomes:
    """Acceptance by kind, with the pair's running average as prior; the past can be forgotten."""

    def __init__(self, depths: int, prior: Prior) -> None:
        self._depths = depths
        self._prior = prior
        self._seen: dict[str, Acceptance] = {}
        self._anew: set[str] = set()  # kinds of which the past was forgotten
        self._failed: dict[str, int] = {}  # drafts in a row of which nothing was kept

    def rates(self, kind: str, hope: float) -> list[float]:
        """a_1, a_2, ...: see `Acceptance.rates`."""
        base = [] if kind in self._anew else list(self._prior(kind, hope))
        known = self._seen.get(kind)
        return known.rates(hope, base) if known else base

    def learn(self, kind: str, drafted: int, accepted: int) -> None:
        """The first `accepted` of `drafted` were kept.

        Where so many failures in a row are unlikely by what is known, the text has changed: then
        they are all that is known.
        """
        self._seen.setdefault(kind, Acceptance(self._depths, _DECAY)).learn(drafted, accepted)
        self._failed[kind] = 0 if accepted else self._failed.get(kind, 0) + 1
        if (1 - self.rates(kind, 0.0)[0]) ** self._failed[kind] < _UNLIKELY:
            self.forget(kind, self._failed[kind])

    def forget(self, kind: str, failed: int = 0) -> None:
        """What becomes of it next, and its last failures, are all that is known of it here."""
        self._anew.add(kind)
        self._failed[kind] = 0
        self._seen[kind] = Acceptance(self._depths, _DECAY, weight=1.0)
        for _ in range(failed):
            self._seen[kind].learn(1, 0)
