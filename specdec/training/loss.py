"""How far the head's law is from the target's. Knows laws over the draft vocabulary alone.

Let p be the target's whole law and D the draft vocabulary, p(D) the chance that it says one of D.
A row costs sum over D of p log(p / (p(D) q)) = p(D) KL(p given D || q): what lies outside D cannot
be said, so a row counts for as much as can.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from specdec.training.practice import Guess

LATER = 0.8
"""Each further step weighs so much of the one before: it is reached less often."""


def step_loss(logits: Tensor, truth: Tensor) -> Tensor:
    """Mean over rows; logits [r, D], and log p [r, D] of the target's whole law."""
    inside = truth.logsumexp(-1)
    whole = F.kl_div(F.log_softmax(logits, -1), truth, log_target=True, reduction="none").sum(-1)
    return (whole - inside.exp() * inside).mean()


def total_loss(guesses: Sequence[Guess]) -> Tensor:
    """The weighted mean over the steps that have rows; 0 where none has."""
    weights = [LATER**step if len(guess.at) else 0.0 for step, guess in enumerate(guesses)]
    parts = [
        weight * step_loss(guess.logits, guess.truth)
        for weight, guess in zip(weights, guesses, strict=True)
        if weight
    ]
    if not parts:
        return guesses[0].logits.sum()  # of nothing; it has a gradient all the same
    return torch.stack(parts).sum() / sum(weights)
