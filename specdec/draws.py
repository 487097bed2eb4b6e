"""Draws for several rows at once where the logits lie, without the host waiting for any of them.

Each draw says whether it is sure to be `sampling.draw`'s; the host repeats the few that are not.
Knows logits, settings and noise; nothing of drafts' quality, models or rounds.

No shape here depends on a value, so a CUDA device runs it without a stop. Sums over rows round
otherwise than sums over one, so a draw counts as sure only when no rounding could change it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from specdec import noise
from specdec.noise import BLOCK
from specdec.penalties import penalised_rows
from specdec.request import Sampling
from specdec.sampling import TINY

_PREFIX = 512  # the largest scores among which the end of a nucleus is looked for
_OPEN = 128  # blocks of ids whose noise is evaluated; beyond them a bound decides
_SLACK = 1e-4  # share of a mass that rounding of sums cannot reach
_MARGIN = 1e-5  # more than two roundings of score - log E differ


@dataclass(frozen=True, slots=True)
class Sight:
    """What row j's law depends on beside its logits: the tokens before it.

    These are `tokens`, then the first `more` + j of `drafted` (int64, on the device). The reply
    begins at `reply_start`.
    """

    tokens: Sequence[int]
    drafted: Tensor
    reply_start: int
    more: int = 0


def draw_rows(
    logits: Tensor, sampling: Sampling, sight: Sight, keys: Tensor
) -> tuple[Tensor, Tensor]:
    """The token of each row of logits (float32 [m, V]) and whether it is sure: int64, bool [m].

    `keys` (int64 [m, 2]) are `Noise.keys`. A row with NaN, +inf, or nothing finite is not sure.
    """
    logits = penalised_rows(
        logits, sampling, lambda start: _occur(sight, start, logits), sight.reply_start
    )
    if sampling.temperature == 0:
        best = logits.argmax(1, keepdim=True)
        return best[:, 0], logits.gather(1, best)[:, 0].isfinite()
    top = logits.amax(1, keepdim=True)
    scores = (logits - top) / max(sampling.temperature, TINY)
    if 0 < sampling.top_k < scores.shape[1]:
        edge = scores.topk(sampling.top_k, 1).values[:, -1:]
        scores = scores.masked_fill(scores < edge, -math.inf)
    open_ = scores
    if sampling.top_p < 1:
        open_ = _nucleus_at_most(scores, sampling.top_p)
    if sampling.min_p > 0:
        open_ = open_.masked_fill(open_ < math.log(sampling.min_p), -math.inf)
    token, sure = _winner(open_, keys)
    sure &= top.isfinite()
    if sampling.top_p < 1:
        sure &= _inside(scores, token, sampling.top_p)
    return token[:, 0], sure[:, 0]


def on_device(values: Sequence[int] | Sequence[tuple[int, int]], device: torch.device) -> Tensor:
    """int64 on `device`; small, so that CUDA takes it without waiting for earlier work."""
    return torch.tensor(values, dtype=torch.int64).to(device, non_blocking=True)


def _occur(sight: Sight, start: int, logits: Tensor) -> Tensor:
    """How often each id occurs before each row, from token `start` on: int64 [m, V]."""
    (rows, size), device = logits.shape, logits.device
    before = on_device(sight.tokens[start:], device).clamp_(max=size)  # beyond V: one spare column
    one = torch.ones((), dtype=torch.int64, device=device)
    count = torch.zeros(size + 1, dtype=torch.int64, device=device)
    count = count.index_add_(0, before, one.expand(len(before))).repeat(rows, 1)
    drafted = sight.drafted.clamp(max=size)
    for j in range(sight.more + rows - 1):
        seen_by = count[max(0, j + 1 - sight.more) :]
        seen_by.index_add_(1, drafted[j : j + 1], one.expand(len(seen_by), 1))
    return count[:, :size]


def _nucleus_at_most(scores: Tensor, top_p: float) -> Tensor:
    """Scores with -inf where an id is surely not among the fewest whose mass reaches `top_p`.

    Only the largest scores are put in order. Where their mass is short, nothing is taken out: the
    winner is then checked by the mass above it.
    """
    need = scores.exp().sum(1, keepdim=True) * (top_p * (1 + _SLACK))
    size = min(scores.shape[1], _PREFIX)
    best = scores.topk(size, 1).values
    before = (best.exp().cumsum(1) < need).sum(1, keepdim=True)
    edge = best.gather(1, before.clamp(max=size - 1))
    ties = before + 1 - (best > edge).sum(1, keepdim=True)
    tied = scores == edge
    out = (scores < edge) | (tied & (tied.cumsum(1) > ties))
    return scores.masked_fill(out & (before < size), -math.inf)


def _inside(scores: Tensor, token: Tensor, top_p: float) -> Tensor:
    """Whether `token` (int64 [m, 1]) is in the nucleus however sums are rounded: bool [m, 1]."""
    mine, mass = scores.gather(1, token), scores.exp()
    ids = torch.arange(scores.shape[1], device=scores.device)
    above = (scores > mine) | ((scores == mine) & (ids < token))
    need = mass.sum(1, keepdim=True) * (top_p * (1 - _SLACK))
    return (mass * above).sum(1, keepdim=True) < need


def _winner(scores: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """argmax of score - log E in each row, int64 [m, 1], and whether it is clear of all others.

    The noise is evaluated in the blocks with the highest bounds: best score - log of the least E.
    """
    rows, size = scores.shape
    blocks, device = -(-size // BLOCK), scores.device
    first, second = keys[:, :1], keys[:, 1:]
    scores = pad(scores, (0, blocks * BLOCK - size), value=-math.inf)
    places = torch.arange(blocks, device=device)
    bound = scores.view(rows, blocks, BLOCK).amax(2) - noise.least(places, first, second).log_()
    count = min(blocks, _OPEN)
    best = bound.topk(min(blocks, count + 1), 1)
    picked = best.indices[:, :count, None] * BLOCK + torch.arange(BLOCK, device=device)
    ids = picked.flatten(1)
    values = scores.gather(1, ids) - noise.exponential(ids, first, second).log_()
    two = values.topk(2, 1)
    winner, second_best = two.values[:, :1], two.values[:, 1:]
    sure = winner - second_best > _MARGIN
    if count < blocks:
        sure &= winner - best.values[:, count:] > _MARGIN
    return ids.gather(1, two.indices[:, :1]), sure
