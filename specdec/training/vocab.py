"""The head's own vocabulary: the target's most frequent ids. Knows counts of ids, no text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

SIZE = 8192


def choose(texts: Iterable[Sequence[int]], most: int) -> tuple[int, ...]:
    """At most `most` ids that occur, ascending; of equal counts the smaller id."""
    counts = Counter(token for ids in texts for token in ids)
    ranked = sorted(counts, key=lambda token: (-counts[token], token))
    return tuple(sorted(ranked[:most]))


def covered(texts: Iterable[Sequence[int]], ids: Iterable[int]) -> float:
    """The share of tokens that `ids` can say."""
    known, counts = set(ids), Counter(token for text in texts for token in text)
    return sum(n for token, n in counts.items() if token in known) / max(1, counts.total())


def maps(ids: Sequence[int], rows: int) -> tuple[Tensor, Tensor]:
    """d2t int64 [D], what a draft id must be raised by, and t2d bool [rows], who is in.

    As SafeAILab/EAGLE and vllm-project/speculators store them.
    """
    own = torch.tensor(ids, dtype=torch.int64)
    inside = torch.zeros(rows, dtype=torch.bool)
    inside[own] = True
    return own - torch.arange(len(own)), inside
