"""Logits + settings -> the law a token is drawn from. Knows no model and no acceptance rule.

Used by target AND drafts, in one order: penalties -> temperature -> top-k -> top-p -> min-p
(DESIGN 4). Temperature 0 is a one-hot law. Every tie goes to the lowest id.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specdec import filters
from specdec.errors import EngineError
from specdec.filters import Scores, all_ids, blocks_of, keep, members
from specdec.noise import BLOCK, LARGEST, SMALLEST, Noise, Stream
from specdec.penalties import penalised
from specdec.request import Sampling

TINY = 2.0**-126  # smallest normal float32; a temperature below it would divide by zero
_SLACK = 1e-4  # more than float32 rounding of score - log E, so that pruning stays exact
_FEW, _MANY = 512, 8192  # ids up to which passing over all is cheaper than being clever
_OPEN = 32  # blocks whose noise is evaluated first; they nearly always hold the winner


@dataclass(frozen=True, slots=True)
class Law:
    """A law over [0, size): ids that survive the filters, ascending, and their scores.

    A score is logit/T up to one constant for all; the highest is finite, others may be -inf.
    """

    ids: Tensor  # int64 [n], ascending, n >= 1
    scores: Tensor  # float32 [n]
    size: int  # V
    best: Tensor | None = None  # highest score of each 64 ids, where it is known: [ceil(V / 64)]

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
    logits = penalised(logits, sampling, tokens, reply_start)
    if sampling.temperature == 0:
        best = first_largest(logits)  # NaN counts as largest, so one pass finds it too
        check(float(logits[best]))
        return Law(best.reshape(1), logits.new_zeros(1), size)
    scores = _scores(logits, max(sampling.temperature, TINY))
    if filters.none(sampling, size):
        return Law(all_ids(size, logits.device), scores.all(), size, scores.best)
    ids, left = filters.survivors(scores, sampling)
    return Law(ids, left, size)


def draw(law: Law, noise: Noise, index: int, stream: Stream) -> int:
    """argmax of score - log E over the ids of the law; the lowest id wins a tie.

    The noise is evaluated only where it can win: an id that lies so far below the best that no
    noise makes up for it has lost already, and a whole block has lost with its least noise.
    """
    if law.one_hot:
        return int(law.ids[0])
    ids, scores, n = law.ids, law.scores, law.ids.shape[0]
    if n > _MANY or n == law.size > _FEW:
        return _race(law, noise, index, stream)
    if n > _FEW:
        far = LARGEST - SMALLEST + _SLACK
        ids, scores = keep(scores >= scores.amax() - far, ids, scores)
    values = scores - noise.exponential(index, stream, ids).log_()
    return int(ids[values.argmax()])


def _race(law: Law, noise: Noise, index: int, stream: Stream) -> int:
    """The draw from a large law.

    No id of a block does better than the block's best score with its least noise. A few blocks
    that could do best are opened, and then any that could still beat the winner found there.
    """
    if law.ids.shape[0] == law.size:
        rows = blocks_of(law.scores)
    else:
        gone = law.scores.new_full((law.size,), -math.inf)
        rows = blocks_of(gone.index_put_((law.ids,), law.scores))
    best = rows.amax(1) if law.best is None else law.best
    lowest = noise.least(index, stream, len(best), best.device)
    bound = best - lowest.log()
    count = min(_OPEN, len(best))
    blocks = bound.topk(count).indices.sort().values
    while True:
        e = noise.in_blocks(index, stream, blocks, lowest[blocks])
        values = rows.index_select(0, blocks).sub_(e.log_()).view(-1)
        place = values.argmax()
        open_ = (bound >= values[place] - _SLACK).nonzero().squeeze(1)
        if len(open_) <= count:  # those of the highest bounds, so all of them were open
            return int(members(blocks)[place])
        blocks, count = open_, len(open_)


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


def _scores(logits: Tensor, temperature: float) -> Scores:
    """All that is known of the scores after one pass. Raises EngineError as `law` does."""
    rows = blocks_of(logits)
    best = rows.amax(1)
    top = float(best.amax())
    check(top)
    return Scores(rows, logits.shape[0], top, temperature, (best - top).div_(temperature))


def check(top: float) -> None:
    """The largest logit tells of every fault: NaN wins a maximum, -inf only loses to nothing."""
    if not math.isfinite(top):
        what = "are not numbers (NaN)" if math.isnan(top) else f"have {top:g} as their largest"
        raise EngineError(
            f"The model's scores {what}; nothing was drawn from them.",
            "Choose another dtype or device, or load the model again.",
        )
