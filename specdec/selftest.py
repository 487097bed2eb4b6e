"""Does a row's result depend on its place in the call, or on what is padded? Asked at load.

Knows scorers; nothing of which one will serve.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specdec.decoder import Weights
from specdec.errors import DeviceError
from specdec.runner import STEP, Layout, LeanScorer


def self_test(weights: Weights, layout: Layout, vocab: int) -> bool:
    """Score the same tokens in one call, one by one, and split unevenly with other tails.

    True when every row has the same bits each time. Raises DeviceError when logits are not finite.
    Nothing is promised for positions not tried; this catches kernels that change with the shape.
    """
    width = layout.width
    scorer = LeanScorer(weights, layout, STEP + width, vocab, exact=True)
    random = torch.Generator().manual_seed(1)
    ids = torch.randint(0, min(vocab, weights.shape.rows), (STEP + width,), generator=random)
    tokens = [int(token) for token in ids]
    start = width  # a short past is enough, and a long one takes seconds on a CPU
    scorer.prefill(tokens[:start])
    rows = tokens[start : start + width]
    whole = scorer.score(rows).clone()
    check_finite(whole)
    splits = ([1] * min(4, width), [width // 2, width - width // 2], [width // 3, 1])
    return all(_same(scorer, start, rows, whole, [n for n in split if n]) for split in splits)


def _same(scorer: LeanScorer, start: int, rows: list[int], whole: Tensor, split: list[int]) -> bool:
    """Score `rows` in calls of `split` rows, each followed by rejected rows where there is room."""
    scorer.rewind(start)
    at = 0
    for count in split:
        tail = [rows[-1 - j] for j in range((scorer.layout.width - count) // 2)]
        logits = scorer.score([*rows[at : at + count], *tail])[:count]
        scorer.rewind(start + at + count)
        if not torch.equal(logits, whole[at : at + count]):
            return False
        at += count
    return True


def check_finite(logits: Tensor) -> None:
    """Raises DeviceError when a row of [m, V] has a NaN, +inf, or no finite number (A28).

    One pass: the largest of a row is NaN if any is, and -inf only if all are.
    """
    if not bool(torch.isfinite(logits.amax(dim=-1)).all()):
        raise DeviceError(
            "The model computed scores that are not numbers.",
            "Try another dtype (--dtype fp32) or --device cpu.",
        )
