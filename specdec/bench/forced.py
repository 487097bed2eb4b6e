"""A draft model that is told which of its drafts to make right. Exists in bench only.

With random weights nothing would ever be accepted; steps cost what they cost all the same.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from specdec.bench.own import Own
from specdec.bench.sample import Reply

HIGH = 1e30
"""Above any logit, and finite."""


class Forced:
    """A `Scorer` whose best next token is the true one, or the id after it, by a fixed pattern.

    `accept` is the share that is right, drawn by position, so that every reply sees one pattern.
    """

    def __init__(self, scorer: Any, accept: float) -> None:
        self._scorer = scorer
        self._accept = accept
        self.truth: Sequence[int] = ()  # prompt and reply

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scorer, name)

    def score(self, ids: Sequence[int]) -> Tensor:
        """The step is made, then its last row is overruled: [m, V]."""
        return self._overruled(self._scorer.score(ids))

    def score_tensor(self, ids: Tensor) -> Tensor:
        """The same for ids on the device."""
        return self._overruled(self._scorer.score_tensor(ids))

    def _overruled(self, logits: Tensor) -> Tensor:
        place = self._scorer.length  # of the token that the last row speaks of
        if place < len(self.truth):
            wrong = 0 if self.right(place) else 1
            logits = logits.clone()
            logits[-1, (self.truth[place] + wrong) % logits.shape[1]] = HIGH
        return logits

    def right(self, place: int) -> bool:
        """Whether the draft for this position is to be the true token."""
        return random.Random(place).random() < self._accept


class ForcedOwn:
    """An `Own` whose draft knows, before each reply, what plain decoding says."""

    def __init__(
        self, own: Own, forced: Forced, truth: Mapping[tuple[int, ...], tuple[int, ...]]
    ) -> None:
        self.engine, self.drafter = own.engine, own.drafter
        self._own = own
        self._forced = forced
        self._truth = truth

    def reply(self, prompt: tuple[int, ...], tokens: int) -> Reply:
        """As `Own.reply`."""
        self._forced.truth = (*prompt, *self._truth[prompt])
        return self._own.reply(prompt, tokens)
