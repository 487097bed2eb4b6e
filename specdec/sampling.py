"""Logits + settings -> the law a token is drawn from. Knows no model and no acceptance rule.

Used by target AND drafts, in one order: penalties -> temperature -> top-k -> top-p -> min-p
(DESIGN 4). Temperature 0 is a one-hot law. Every tie goes to the lowest id.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import pad

from specdec.errors import EngineError
from specdec.noise import BLOCK, LARGEST, SMALLEST, Noise, Stream
from specdec.request import Sampling

TINY = 2.0**-126  # smallest normal float32; a temperature below it would divide by zero
_SLACK = 1e-4  # more than float32 rounding of score - log E, so that pruning stays exact
_LOST = -105.0  # exp of it is 0 in float32
_SORT = 2048  # top-p sorts this many ids at most
_FEW, _MANY = 512, 8192  # ids up to which passing over all is cheaper than being clever


@dataclass(frozen=True, slots=True)
class Law:
    """A law over [0, size): ids that survive the filters, ascending, and their scores.

    A score is logit/T up to one constant for all; the highest is finite, others may be -inf.
    """

    ids: Tensor  # int64 [n], ascending, n >= 1
    scores: Tensor  # float32 [n]
    size: int  # V

    @property
    def one_hot(self) -> bool:
        """One id has all the mass."""
        return self.ids.shape[0] == 1

    def probs(self) -> Tensor:
        """Mass of each of `ids`: float32 [n], sums to 1."""
        return torch.softmax(self.scores, dim=0)

    def prob(self, token: int) -> float:
        """Mass of one id; 0 where it was filtered out or lies outside the vocabulary."""
        place = int(torch.searchsorted(self.ids, token))
        if place == self.ids.shape[0] or int(self.ids[place]) != token:
            return 0.0
        return float(self.probs()[place])

    def dense(self) -> Tensor:
        """Mass of every id: float32 [V]."""
        out = torch.zeros(self.size, dtype=torch.float32, device=self.ids.device)
        return out.index_copy_(0, self.ids, self.probs())


def law(logits: Tensor, sampling: Sampling, tokens: Sequence[int], reply_start: int) -> Law:
    """The law of the token that follows `tokens`, from its logits (float32 [V]).

    `tokens` are prompt and reply, drafted tokens before this position included; the reply begins
    at `reply_start`. Raises EngineError for logits that hold NaN or +inf, or nothing finite.
    """
    size = logits.shape[0]
    logits = penalised(logits, sampling, lambda start: counts(tokens[start:], logits), reply_start)
    if sampling.temperature == 0:
        best = first_largest(logits)  # NaN counts as largest, so one pass finds it too
        check(float(logits[best]))
        return Law(best.reshape(1), logits.new_zeros(1), size)
    top = float(logits.amax())
    check(top)
    scores = (logits - top).div_(max(sampling.temperature, TINY))
    ids = _all_ids(size, logits.device)
    if 0 < sampling.top_k < size:
        edge = _largest(scores, sampling.top_k)[-1]
        ids, scores = _keep(scores >= edge, ids, scores)
    if sampling.top_p < 1:
        places = _nucleus(scores, sampling.top_p)
        ids, scores = ids[places], scores[places]
    if sampling.min_p > 0:
        ids, scores = _keep(scores >= math.log(sampling.min_p), ids, scores)
    return Law(ids, scores, size)


def draw(law: Law, noise: Noise, index: int, stream: Stream) -> int:
    """argmax of score - log E over the ids of the law; the lowest id wins a tie.

    The noise is evaluated only where it can win: an id that lies so far below the best that no
    noise makes up for it has lost already, and a whole block has lost with its least noise.
    """
    if law.one_hot:
        return int(law.ids[0])
    ids, scores, n = law.ids, law.scores, law.ids.shape[0]
    if n > _MANY or n == law.size > _FEW:
        ids, scores = _contenders(law, noise, index, stream)
    elif n > _FEW:
        far = LARGEST - SMALLEST + _SLACK
        ids, scores = _keep(scores >= scores.amax() - far, ids, scores)
    values = scores - noise.exponential(index, stream, ids).log_()
    return int(ids[values.argmax()])


def first_largest(row: Tensor) -> Tensor:
    """The lowest place of the largest of `row`, of a NaN where there is one: int64, no dimension.

    As argmax, which passes over a vocabulary a dozen times slower on a CPU than a maximum does.
    """
    blocks = row.shape[0] // BLOCK
    if blocks < 2:
        return row.argmax()
    block = row[: blocks * BLOCK].view(blocks, BLOCK).amax(1).argmax().view(1)
    inside = row[: blocks * BLOCK].view(blocks, BLOCK).index_select(0, block).view(BLOCK)
    place = torch.cat((inside, row[blocks * BLOCK :])).argmax()
    start = torch.where(place < BLOCK, block.view(()), blocks - 1) * BLOCK
    return start + place


@lru_cache(maxsize=4)
def _all_ids(size: int, device: torch.device) -> Tensor:
    """0 .. size - 1, made once: it is never written to."""
    return torch.arange(size, device=device)


def _contenders(law: Law, noise: Noise, index: int, stream: Stream) -> tuple[Tensor, Tensor]:
    """The ids that can win a draw from a large law, and their scores."""
    blocks, device = -(-law.size // BLOCK), law.ids.device
    if law.ids.shape[0] == law.size:
        more = blocks * BLOCK - law.size
        rows = pad(law.scores, (0, more), value=-math.inf) if more else law.scores
    else:
        rows = law.scores.new_full((blocks * BLOCK,), -math.inf)
        rows[law.ids] = law.scores
    best = rows.view(blocks, BLOCK).amax(1)
    least, place = noise.least(index, stream, blocks, device)
    least = least.log()
    reached = torch.maximum((rows[place] - least).amax(), best.amax() + SMALLEST)
    open_ = (best - least >= reached - _SLACK).nonzero()
    ids = (open_ * BLOCK + torch.arange(BLOCK, device=device)).flatten()
    return ids, rows[ids]


def check(top: float) -> None:
    """The largest logit tells of every fault: NaN wins a maximum, -inf only loses to nothing."""
    if not math.isfinite(top):
        what = "are not numbers (NaN)" if math.isnan(top) else f"have {top:g} as their largest"
        raise EngineError(
            f"The model's scores {what}; nothing was drawn from them.",
            "Choose another dtype or device, or load the model again.",
        )


def _keep(mask: Tensor, ids: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """The ids and scores where `mask` (bool [n]) holds, in order."""
    places = mask.nonzero().squeeze(1)
    return ids[places], scores[places]


def _largest(scores: Tensor, k: int) -> Tensor:
    """The k largest scores, descending: float32 [k]. As topk, but most ids are passed over once.

    k blocks each hold an id at least as good as the k-th best block, so no id below that is
    among the k largest.
    """
    blocks = scores.shape[0] // BLOCK
    if k > blocks:
        return scores.topk(k).values
    best = scores[: blocks * BLOCK].view(blocks, BLOCK).amax(1)
    edge = best.topk(k).values[-1]
    return scores[scores >= edge].topk(k).values


def _nucleus(scores: Tensor, top_p: float) -> Tensor:
    """Places of the fewest ids whose mass reaches `top_p`: int64 [m]. Highest score must be 0.

    Holtzman et al. 2019 (arXiv 1904.09751). Of ids equal to the last one, the lowest stay.
    """
    n = scores.shape[0]
    need = float(scores.exp().sum()) * top_p
    for size in (_FEW, _MANY):
        best, above = _largest(scores, min(n, size)), 0.0
        if n <= size or float(best.exp().sum()) >= need:
            break
    else:
        best, above = _part(scores, need)
    before = int((_running(best.exp()) + above < need).sum())
    if before == best.shape[0]:  # rounding left the sum of all of them just below `need`
        return (scores > _LOST).nonzero().squeeze(1)
    edge = best[before]
    ties = before + 1 - int((best > edge).sum())
    places = (scores >= edge).nonzero().squeeze(1)
    tied = scores[places] == edge
    return places[~tied | (tied.cumsum(0) <= ties)]


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


def penalised(
    logits: Tensor, sampling: Sampling, occurs: Callable[[int], Tensor], reply_start: int
) -> Tensor:
    """Repetition over prompt and reply (Keskar et al. 2019, CTRL), the other two over the reply.

    `occurs(start)` says how often each id occurs from token `start` on: int64, the shape of
    `logits`. A new tensor when a penalty is on; the logits themselves when none is.
    """
    rest = sampling.repetition_penalty
    if rest != 1:
        seen = occurs(0) > 0
        logits = torch.where(seen, torch.where(logits > 0, logits / rest, logits * rest), logits)
    if sampling.frequency_penalty or sampling.presence_penalty:
        times = occurs(reply_start)
        logits = logits - times * sampling.frequency_penalty
        logits = logits - (times > 0) * sampling.presence_penalty
    return logits


def counts(tokens: Sequence[int], like: Tensor) -> Tensor:
    """How often each id occurs: int64 [V]. Ids beyond a smaller vocabulary are left out."""
    size = like.shape[-1]
    if not tokens:
        return torch.zeros(size, dtype=torch.int64, device=like.device)
    ids = torch.frombuffer(array("q", tokens), dtype=torch.int64)
    return torch.bincount(ids, minlength=size)[:size].to(like.device)
