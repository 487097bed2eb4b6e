"""A drafter of one reply, timed and kept harmless: one that fails is off, and the reply goes on.

Knows the drafter protocol and a clock; nothing of targets, acceptance or text.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from specdec.drafters.base import Context, Draft, Drafter, Several, Watcher
from specdec.drafters.none import NoDrafter
from specdec.drafters.plan import Offer
from specdec.sampling import check
from specdec.scorer import Scorer

Answer = TypeVar("Answer")

_log = logging.getLogger(__name__)


class Guarded:
    """Asks a drafter; after its first error it asks nobody. `seconds` is the time it took."""

    def __init__(self, drafter: Drafter, now: Callable[[], float]) -> None:
        self.seconds = 0.0
        self._drafter = drafter
        self._watcher = cast(Watcher, drafter) if drafter.wants_hidden else None
        self._now = now
        self._untold = ""  # why it failed, until that was said

    def watch(self, target: Scorer | None) -> None:
        """See `Watcher.watch`; also of one that failed since, when the reply has ended."""
        if self._watcher is not None:
            watcher = self._watcher
            self._ask(lambda: watcher.watch(target), None)

    def begin(self, tokens: Sequence[int]) -> None:
        """See `Drafter.begin`."""
        self._ask(lambda: self._drafter.begin(tokens), None)

    def offers(self, tokens: Sequence[int]) -> Sequence[Offer]:
        """See `Drafter.offers`; none from one that failed."""
        return self._ask(lambda: self._drafter.offers(tokens), ())

    def catch_up(self, tokens: Sequence[int], source: str) -> bool:
        """See `Drafter.catch_up`, for the offer of this source."""

        def read() -> bool:
            if isinstance(self._drafter, Several):
                self._drafter.take(source)
            return self._drafter.catch_up(tokens)

        return self._ask(read, True)

    def propose(self, context: Context, k: int) -> Draft:
        """See `Drafter.propose`; nothing from one that failed."""
        return self._ask(lambda: self._drafter.propose(context, k), Draft())

    def sound(self, draft: Draft) -> bool:
        """Whether a draft that was read with the outcome was one; else its drafter has failed.

        The round stands all the same: under `match` no draft can change what the target draws.
        """

        def checked() -> bool:
            for top in draft.tops:
                check(top)
            return True

        return self._ask(checked, False)

    def settle(self, tokens: Sequence[int], accepted: int) -> None:
        """See `Drafter.settle`."""
        self._ask(lambda: self._drafter.settle(tokens, accepted), None)

    def told(self) -> str:
        """What the user must be told of a failure, once; "" when there is nothing."""
        text, self._untold = self._untold, ""
        return text

    def _ask(self, question: Callable[[], Answer], otherwise: Answer) -> Answer:
        started = self._now()
        try:
            return question()
        except Exception as error:  # whatever a drafter does, it is never heard
            _log.exception("the drafter %s failed", self._drafter.name)
            self._untold = f"The draft failed and is off for this reply: {error}"
            self._drafter = NoDrafter()
            return otherwise
        finally:
            self.seconds += self._now() - started
