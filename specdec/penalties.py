"""Repetition, frequency and presence penalties on logits. Knows token ids and scores only.

Repetition looks at prompt and reply (Keskar et al. 2019, CTRL), the other two at the reply. Done
twice with equal results: over the ids that occur, and, without a stop, over rows on a device.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from specdec.request import Sampling


def penalised(
    logits: Tensor, sampling: Sampling, tokens: Sequence[int], reply_start: int
) -> Tensor:
    """Logits (float32 [V]) after `tokens`, whose reply begins at `reply_start`.

    The logits themselves where there is nothing to penalise, else a new tensor. Ids that do not
    occur are copied and no more.
    """
    rest, counted = sampling.repetition_penalty, _counts_matter(sampling)
    if not tokens or (rest == 1 and not counted):
        return logits
    out, ids = logits.clone(), torch.frombuffer(array("q", tokens), dtype=torch.int64)
    if rest != 1:
        seen = _known(ids, logits)
        score = logits.index_select(0, seen)
        # an id that occurs twice is written twice, with the same score
        out.scatter_(0, seen, torch.where(score > 0, score / rest, score * rest))
    if counted:
        said = _known(ids[reply_start:], logits)
        count = torch.zeros_like(logits, dtype=torch.int32)
        count.index_add_(0, said, torch.ones_like(said, dtype=torch.int32))
        times = count.index_select(0, said)
        score = out.index_select(0, said) - times * sampling.frequency_penalty
        out.scatter_(0, said, score - sampling.presence_penalty)
    return out


def penalised_rows(
    logits: Tensor, sampling: Sampling, occurs: Callable[[int], Tensor], reply_start: int
) -> Tensor:
    """The same where ids are not known to the host: logits [m, V] and a count for each of them.

    `occurs(start)` says how often each id occurs from token `start` on: int64, the shape of
    `logits`.
    """
    rest = sampling.repetition_penalty
    if rest != 1:
        seen = occurs(0) > 0
        logits = torch.where(seen, torch.where(logits > 0, logits / rest, logits * rest), logits)
    if _counts_matter(sampling):
        times = occurs(reply_start)
        logits = logits - times * sampling.frequency_penalty
        logits = logits - (times > 0) * sampling.presence_penalty
    return logits


def _counts_matter(sampling: Sampling) -> bool:
    return bool(sampling.frequency_penalty or sampling.presence_penalty)


def _known(ids: Tensor, like: Tensor) -> Tensor:
    """Those `like` has (int64 [n], from the CPU), as often as they occur, on its device."""
    return ids[ids < like.shape[0]].to(like.device)
