"""What one reply is to be: prompt, law, noise, limits. Plain data; knows nothing of models."""

from __future__ import annotations

from dataclasses import dataclass

from specdec.noise import Noise
from specdec.request import Rule, Sampling


@dataclass(frozen=True, slots=True)
class Task:
    """All a reply depends on, beside the target. `context` bounds prompt + reply, in tokens.

    `begun`: the reply's first ids, where it goes on from some.
    """

    prompt: tuple[int, ...]
    sampling: Sampling
    rule: Rule
    noise: Noise
    end_ids: frozenset[int]
    context: int
    begun: tuple[int, ...] = ()
