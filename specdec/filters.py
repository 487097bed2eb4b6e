"""Which ids survive top-k, top-p and min-p, without a vocabulary put in order. Knows scores.

The highest score of each block of 64 ids is found in one pass; whole blocks are then left out by
it, and only what is in the others is looked at. The results are those of a full sort.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import pad

from specdec.noise import BLOCK
from specdec.request import Sampling

_LOST = -105.0  # exp of it is 0 in float32
_FEW, _MANY = 512, 8192  # how many of the largest are looked at, one after the other
_FIRST = 64  # and before them; most nuclei are smaller
_SURE = 1 + 1e-5  # more than float32 sums of the same masses differ
_SORT = 2048  # this many ids at most are sorted


@dataclass(frozen=True, slots=True)
class Scores:
    """(logit - `top`) / `temperature` over a vocabulary, worked out where it is asked for."""

    rows: Tensor  # logits, float32 [B, 64], the last block filled up with -inf
    size: int  # V
    top: float  # the highest logit
    temperature: float
    best: Tensor  # highest score of each block: float32 [B]

    def all(self) -> Tensor:
        """Of every id: float32 [V], a new tensor."""
        return (self.rows.view(-1)[: self.size] - self.top).div_(self.temperature)

    def within(self, blocks: Tensor) -> tuple[Tensor, Tensor]:
        """Ids and scores of the blocks where `blocks` (bool [B]) holds, ascending: [n] each."""
        some = blocks.nonzero().squeeze(1)
        scores = self.rows.index_select(0, some).view(-1).sub_(self.top).div_(self.temperature)
        ids = members(some)
        if self.rows.numel() > self.size:
            count = len(ids) - max(0, (int(some[-1]) + 1) * BLOCK - self.size)
            ids, scores = ids[:count], scores[:count]
        return ids, scores


def blocks_of(row: Tensor) -> Tensor:
    """A row [V] as blocks [B, 64], the last one filled up with -inf; a view where it is full."""
    missing = -row.shape[0] % BLOCK
    return (pad(row, (0, missing), value=-math.inf) if missing else row).view(-1, BLOCK)


def members(blocks: Tensor) -> Tensor:
    """Ids of the blocks (int64 [b]), in their order: int64 [64 b]."""
    return (blocks[:, None] * BLOCK + all_ids(BLOCK, blocks.device)).view(-1)


@lru_cache(maxsize=8)
def all_ids(size: int, device: torch.device) -> Tensor:
    """0 .. size - 1, made once: it is never written to."""
    return torch.arange(size, device=device)


def keep(mask: Tensor, ids: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """The ids and scores where `mask` (bool [n]) holds, in order."""
    places = mask.nonzero().squeeze(1)
    return ids[places], scores[places]


def none(sampling: Sampling, size: int) -> bool:
    """No filter leaves anything out."""
    return not 0 < sampling.top_k < size and sampling.top_p == 1 and sampling.min_p == 0


def survivors(scores: Scores, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Ids, ascending, and scores of those that pass top-k, then top-p, then min-p: [n] each."""
    least = math.log(sampling.min_p) if sampling.min_p > 0 else -math.inf
    if 0 < sampling.top_k < scores.size:
        ids, some = _top_k(scores, sampling.top_k)
        if sampling.top_p < 1:
            places = _nucleus(some, float(some.exp().sum()) * sampling.top_p)
            ids, some = ids[places], some[places]
    elif sampling.top_p < 1:
        ids, some = _top_p(scores, sampling.top_p)
    else:
        ids, some = scores.within(scores.best >= least)
    return keep(some >= least, ids, some) if sampling.min_p > 0 else (ids, some)


def _top_k(scores: Scores, k: int) -> tuple[Tensor, Tensor]:
    """Ids and scores of the k highest, and of all equal to the k-th.

    k blocks each hold a score at least as high as the best of the k-th best block, so no score
    below that is among the k highest.
    """
    if k < len(scores.best):
        ids, some = scores.within(scores.best >= scores.best.topk(k).values[-1])
    else:
        ids, some = all_ids(scores.size, scores.best.device), scores.all()
    return keep(some >= some.topk(k).values[-1], ids, some)


def _top_p(scores: Scores, top_p: float) -> tuple[Tensor, Tensor]:
    """Ids and scores of the nucleus of a whole vocabulary, from the best blocks where it can."""
    need = float(scores.all().exp_().sum()) * top_p
    for count in (_FIRST, _FEW):
        if count >= len(scores.best):
            break
        ids, some = scores.within(scores.best >= scores.best.topk(count).values[-1])
        best = some.topk(count).values
        running = _running(best.exp())
        if float(running[-1]) >= need * _SURE:
            places = _upto(some, best, int((running < need).sum()))
            return ids[places], some[places]
    whole = scores.all()
    places = _nucleus(whole, need)
    return places, whole[places]


def _nucleus(scores: Tensor, need: float) -> Tensor:
    """Places of the fewest ids whose mass reaches `need`: int64 [m]. Highest score must be 0.

    Holtzman et al. 2019 (arXiv 1904.09751). Of ids equal to the last one, the lowest stay.
    """
    n = scores.shape[0]
    for size in (_FEW, _MANY):
        best, above = _largest(scores, min(n, size)), 0.0
        if n <= size or float(best.exp().sum()) >= need:
            break
    else:
        best, above = _part(scores, need)
    before = int((_running(best.exp()) + above < need).sum())
    if before == best.shape[0]:  # rounding left the sum of all of them just below `need`
        return (scores > _LOST).nonzero().squeeze(1)
    return _upto(scores, best, before)


def _upto(scores: Tensor, best: Tensor, before: int) -> Tensor:
    """Places of `best[before]` and all above it; of its equals the lowest: int64 [m]."""
    edge = best[before]
    ties = before + 1 - int((best > edge).sum())
    places = (scores >= edge).nonzero().squeeze(1)
    tied = scores[places] == edge
    return places[~tied | (tied.cumsum(0) <= ties)]


def _largest(scores: Tensor, k: int) -> Tensor:
    """The k largest scores, descending: float32 [k]. As topk, but most ids are passed over once."""
    blocks = scores.shape[0] // BLOCK
    if k > blocks:
        return scores.topk(k).values
    best = scores[: blocks * BLOCK].view(blocks, BLOCK).amax(1)
    edge = best.topk(k).values[-1]
    return scores[scores >= edge].topk(k).values


def _running(mass: Tensor) -> Tensor:
    """The sum up to each place: float32 [n].

    Beside a copy of itself, since CUDA sums a lone row in an order that varies from run to run.
    """
    return torch.stack((mass, mass)).cumsum(1)[0]


def _part(scores: Tensor, need: float) -> tuple[Tensor, float]:
    """The few scores among which the mass of those above passes `need`, and that mass before them.

    Descending, float32 [m]. A quickselect by mass: split at the mean, go on in the right part.
    """
    some, above = scores.clamp(min=_LOST), 0.0  # -inf cannot be averaged; its mass stays 0
    while (count := some.shape[0]) > _SORT:
        mass = some.exp()
        pivot = min(float(some.dot(mass) / mass.sum()), float(some.amax()))
        split = some >= pivot
        inside = float(mass[split].sum())
        if above + inside < need:
            above, some = above + inside, some[~split]
        else:
            some = some[split]
        if some.shape[0] == count:
            break  # all equal
    return some.sort(descending=True).values, above
