"""Drafts with the target's own first layers: leaves it early, by its own norm and output matrix.

Knows the target as a scorer that can be left early; nothing of its weights, or of who verifies.
The exit law is that of Elhoushi et al. 2024 (LayerSkip); the layers' K and V are the target's own,
so there is nothing to catch up with, and the scoring call goes on where the draft left.
"""

from __future__ import annotations

from collections.abc import Sequence

from specdec.drafters.base import Context, Draft, Offer, drawn
from specdec.drafters.confidence import Doubt
from specdec.runner import LeanScorer
from specdec.sampling import Law
from specdec.scorer import Scorer

_NO_TARGET = "No draft: no target is here whose first layers could draft."


class EarlyExitDrafter:
    """A few layers a drafted token. `hope` is the share kept that the calibration saw.

    `ends` are the end ids: nothing is drafted after one. It keeps nothing between rounds: what was
    read ahead is the scorer's, and is forgotten there.
    """

    wants_hidden = True

    def __init__(self, name: str, layers: int, ends: frozenset[int], hope: float) -> None:
        self.name = name
        self.layers = layers
        self._hope = hope
        self._ends = ends
        self._doubt = Doubt()
        self._target: LeanScorer | None = None

    def watch(self, target: Scorer | None) -> None:
        """A reply by `target` begins, or has ended. Raises ValueError for one of no lean layers."""
        self._target = None
        if target is None:
            return
        if not isinstance(target, LeanScorer):
            raise ValueError("this target cannot be left after some of its layers")
        self._target = target

    def begin(self, tokens: Sequence[int]) -> None:
        """Nothing to prepare."""

    def offers(self, tokens: Sequence[int]) -> Sequence[Offer]:
        """Itself, never behind."""
        return (Offer(self.name, hope=self._hope, blocked="" if self._target else _NO_TARGET),)

    def catch_up(self, tokens: Sequence[int]) -> bool:
        """Nothing to read: the target has read it."""
        return True

    def propose(self, context: Context, k: int) -> Draft:
        """At most k tokens; fewer where the target's next call has no room for more.

        And where one more is not likely enough to be kept. That is decided from the tokens drawn
        so far, and those stay: none is withdrawn, so `reject` stays exact (DESIGN 4).
        """
        target, layers = self._target, self.layers
        if target is None:
            return Draft(reason=_NO_TARGET)
        target.rewind(target.length)  # what another draft read ahead is forgotten
        fresh = context.tokens[target.length :]
        k = min(k, target.room() - len(fresh))
        if k <= 0:
            return Draft()
        sequence, drafted = list(context.tokens), list[int]()
        laws: list[Law] = []
        self._doubt.forget()
        while True:
            logits = target.score_early(fresh, layers)
            q, x = drawn(logits, context, sequence)
            drafted.append(x)
            laws.append(q)
            if len(drafted) == k or x in self._ends or self._doubt.unlikely(logits, x, context):
                return Draft(tuple(drafted), tuple(laws))
            fresh = [x]
            sequence.append(x)

    def settle(self, tokens: Sequence[int], accepted: int) -> None:
        """Note what became of the draft."""
        self._doubt.settle(accepted)
