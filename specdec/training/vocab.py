"""The head's own vocabulary: the target's most frequent ids. Knows counts of ids, no text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from specdec.training.chats import Chat


def choose(said: Iterable[Chat], read: Iterable[Chat], most: int) -> tuple[int, ...]:
    """At most `most` ids, ascending: what replies of `said` hold most often, then what occurs most.

    Of equal counts the smaller id.
    """
    first = Counter(token for chat in said for token in _replies(chat))
    then = Counter(token for chat in read for token in chat.ids)
    ranked = sorted(first | then, key=lambda token: (-first[token], -then[token], token))
    return tuple(sorted(ranked[:most]))


def covered(chats: Iterable[Chat], ids: Iterable[int]) -> float:
    """The share of tokens in replies that `ids` can say."""
    known, counts = set(ids), Counter(token for chat in chats for token in _replies(chat))
    return sum(n for token, n in counts.items() if token in known) / max(1, counts.total())


def maps(ids: Sequence[int], rows: int) -> tuple[Tensor, Tensor]:
    """d2t int64 [D], what a draft id must be raised by, and t2d bool [rows], who is in.

    As SafeAILab/EAGLE and vllm-project/speculators store them.
    """
    own = torch.tensor(ids, dtype=torch.int64)
    inside = torch.zeros(rows, dtype=torch.bool)
    inside[own] = True
    return own - torch.arange(len(own)), inside


def _replies(chat: Chat) -> Iterable[int]:
    for start, end in chat.replies:
        yield from chat.ids[start:end]
