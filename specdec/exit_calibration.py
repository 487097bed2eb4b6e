"""After which layer to leave a target early: agreement on a text, a step's cost, predicted gain.

Knows weights, costs and a clock; nothing of files, of how drafts are ranked, or of turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, repeat
from operator import mul
from time import perf_counter

import torch
from torch import Tensor

from specdec import decoder
from specdec.attention import make_step
from specdec.decoder import Weights
from specdec.measure import PATIENCE
from specdec.runner import LeanScorer

SHARES = (0.15, 0.25, 0.35, 0.5, 0.65)
"""Where in the stack an exit is tried; a later one would cost more than it could gain."""

LEAST = 4
"""Layers a target must have to be left early at all."""

ROWS = 32
"""Rows whose logits are looked at together: of 150,000 ids each, so not too many."""


@dataclass(frozen=True, slots=True)
class Exit:
    """Leaving after `layers` layers: the share of tokens agreed on, and what it would bring.

    `token` is the seconds a drafted token adds to a round, what the scoring call saves taken off;
    `gain` the tokens a second over plain decoding's at the best draft length, `k`.
    """

    layers: int
    agreement: float
    token: float
    gain: float
    k: int


def candidates(count: int) -> tuple[int, ...]:
    """The layers tried, of `count`, ascending; none where there are too few."""
    if count < LEAST:
        return ()
    return tuple(sorted({max(1, round(share * count)) for share in SHARES}))


def agreements(
    weights: Weights, ids: Sequence[int], exits: Sequence[int], vocab: int
) -> dict[int, float]:
    """The share of tokens after `ids` at which an exit's likeliest one is the whole target's.

    One pass over the text; the first tokens, of which nobody could know the next, are in it.
    """
    buffers = decoder.make_buffers(weights.shape, len(ids), weights.dtype, weights.embed.device)
    step = make_step(weights.shape, 0, len(ids), len(ids), len(ids), buffers.kv, 0)
    seen: dict[int, Tensor] = {}

    def see(index: int, x: Tensor) -> None:
        if index in exits:
            seen[index] = x

    tokens = torch.tensor(ids, dtype=torch.int64, device=weights.embed.device)
    last = decoder.hidden_states(weights, tokens, buffers, step, see)

    def best(hidden: Tensor) -> Tensor:
        parts = [decoder.logits(weights, rows)[:, :vocab] for rows in torch.split(hidden, ROWS)]
        return torch.cat([part.argmax(1) for part in parts])

    whole = best(last)
    return {e: float((best(seen[e]) == whole).float().mean()) for e in exits}


def predicted(
    costs: Mapping[int, float], token: float, layers: int, agreement: float, k_max: int
) -> Exit:
    """The gain of an exit by the controller's formula (DESIGN 6), every depth agreeing alike.

    `costs` are the seconds of a scoring call by rows.
    """
    chain = accumulate(repeat(agreement, k_max), mul)
    expected = list(accumulate(chain, initial=1.0))  # tokens of a round, by k
    gains = {k: expected[k] * costs[1] / (k * token + costs[k + 1]) for k in range(1, k_max + 1)}
    k = max(gains, key=lambda k: (gains[k], -k))
    return Exit(layers, agreement, token, gains[k], k)


def best_exit(
    shares: Mapping[int, float], costs: Mapping[int, float], head: float, layers: int, k_max: int
) -> Exit:
    """Of the exits whose agreement is known, of a target of `layers`, the one that gains most."""
    exits = (
        predicted(costs, estimated_token(costs, head, e / layers, k_max), e, share, k_max)
        for e, share in shares.items()
    )
    return max(exits, key=lambda one: one.gain)


def estimated_token(costs: Mapping[int, float], head: float, share: float, k_max: int) -> float:
    """What a drafted token adds where `share` of the layers draft, from known costs: seconds.

    One row through those layers and the output matrix (`head` seconds), less what the scoring call
    does not compute again for it.
    """
    row = (costs[k_max + 1] - costs[1]) / k_max
    return max(head, head + share * (costs[1] - head - row))


def head_seconds(weights: Weights, repeats: int = 4) -> float:
    """Least seconds of final norm and output matrix for one row."""
    x = torch.zeros(1, weights.shape.hidden, dtype=weights.dtype, device=weights.embed.device)
    times = list[float]()
    for _ in range(repeats):
        began = perf_counter()
        decoder.logits(weights, x).amax().item()  # the device has finished
        times.append(perf_counter() - began)
    return min(times)


def measured_token(scorer: LeanScorer, layers: int, k: int, repeats: int = 3) -> float:
    """Seconds a drafted token adds to a round of k: drafted and scored, against scored alone.

    Taken in turns, the least of a few, or of what `PATIENCE` allows. Leaves the scorer as long as
    it was.
    """
    length, drafted, plain = scorer.length, list[float](), list[float]()
    until = perf_counter() + PATIENCE
    while not drafted or (len(drafted) < repeats and perf_counter() < until):
        began = perf_counter()
        for _ in range(k):
            scorer.score_early([0], layers).amax().item()
        scorer.score([0] * (k + 1)).amax().item()
        middle = perf_counter()
        scorer.rewind(length)
        scorer.score([0] * (k + 1)).amax().item()
        plain.append(perf_counter() - middle)
        drafted.append(middle - began)
        scorer.rewind(length)
    return max(0.0, (min(drafted) - min(plain)) / k)
