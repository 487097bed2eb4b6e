"""A finished reply read again by the plain model, a row a call: is each token its choice?

Knows two scorers and a reply; nothing of drafts, of how the reply was made, or of verdicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specdec.compare import gap_between
from specdec.sampling import draw, law
from specdec.scorer import Scorer
from specdec.trial import Said
from specdec.turn import Task

ROUNDING = 2.0**-16
"""More than float32 rounding of logit/T - log E; it matters where two runners all but agree."""

TOP = 5
"""Of so many likeliest tokens the entropy is taken that says where a law test has most to see."""


@dataclass(frozen=True, slots=True)
class Other:
    """A token that is not the plain model's choice there. All in logit/T - log E (logit at T = 0).

    `gap` is how far the plain model puts the token below its choice; `spread` is the largest
    absolute difference of the two runners at this place. Two runners can explain 2 x `spread`:
    one lifts the token by that much at most, the other holds the choice down by as much.
    """

    place: int
    expected: int
    got: int
    gap: float
    spread: float

    @property
    def explained(self) -> bool:
        return self.gap <= 2 * self.spread + ROUNDING


@dataclass(frozen=True, slots=True)
class Replay:
    """`tokens` were replayed, an end id included. `entropy`, in nats, has one entry a token."""

    tokens: int
    others: tuple[Other, ...]
    entropy: tuple[float, ...]


def replay(task: Task, said: Said, plain: Scorer, made: Scorer) -> Replay:
    """Score the reply in both runners and draw again from the plain one's logits.

    `plain` takes one row a call, as plain decoding does; `made` is the runner that said the reply,
    and takes as many as it may: there a row's result does not depend on that, or it is not exact.
    """
    tokens = [*task.prompt, *said.ids]
    fill(plain, task.prompt[:-1])
    fill(made, task.prompt[:-1])
    start, stop = len(task.prompt), len(tokens) + (said.reason == "end")
    others, entropy = list[Other](), list[float]()
    place = start
    while place < stop:
        rows = made.score(tokens[place - 1 : min(stop - 1, place - 1 + made.room())])
        rows = rows.to("cpu", copy=True)  # a runner may write the next call over this one
        for row in rows:
            logits = plain.score([tokens[place - 1]])[0].cpu()
            before = tokens[:place]
            got = tokens[place] if place < len(tokens) else _end(row, task, before)
            choice = draw(
                law(logits, task.sampling, before, start), task.noise, place - start, "target"
            )
            if choice != got:
                others.append(_other(task, before, choice, got, logits, row))
            entropy.append(_entropy(logits))
            place += 1
    return Replay(stop - start, tuple(others), tuple(entropy))


def fill(scorer: Scorer, ids: Sequence[int]) -> None:
    """Read `ids` into an empty cache, in the chunks that a turn reads."""
    scorer.rewind(0)
    while (done := scorer.length) < len(ids):
        border = (done // scorer.chunk + 1) * scorer.chunk
        scorer.prefill(ids[done:border])


def _other(
    task: Task, before: Sequence[int], choice: int, got: int, logits: Tensor, row: Tensor
) -> Other:
    gap = gap_between(logits, task, before, choice, got)
    known = torch.isfinite(logits) & torch.isfinite(row)  # rows beyond the matrix are -inf in both
    spread = float((logits - row)[known].abs().max()) / (task.sampling.temperature or 1.0)
    return Other(len(before) - len(task.prompt), choice, got, gap, spread)


def _end(row: Tensor, task: Task, before: Sequence[int]) -> int:
    """Which end id ended the reply: ids leave it out. The one that the maker's logits put first."""
    best, *rest = sorted(token for token in task.end_ids if token < len(row))
    for token in rest:
        if gap_between(row, task, before, token, best) > 0:
            best = token
    return best


def _entropy(logits: Tensor) -> float:
    """Entropy of the few likeliest tokens, in nats."""
    probs = torch.softmax(logits.topk(min(TOP, len(logits))).values, dim=0)
    return float(torch.special.entr(probs).sum())
