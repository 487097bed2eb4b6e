"""Penalties: over the ids that occur and over whole rows, bit for bit the same."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from specdec.penalties import penalised, penalised_rows
from specdec.request import Sampling
from tests.specdec.test_draws import KINDS, logits_of

ALL = [
    Sampling(),
    Sampling(repetition_penalty=1.3),
    Sampling(repetition_penalty=0.7),
    Sampling(frequency_penalty=0.3),
    Sampling(presence_penalty=-0.4),
    Sampling(frequency_penalty=-0.3, presence_penalty=0.7),
    Sampling(repetition_penalty=1.1, frequency_penalty=0.1, presence_penalty=0.7),
]


def counts(tokens: list[int], size: int) -> Tensor:
    count = [0] * size
    for token in tokens:
        if token < size:
            count[token] += 1
    return torch.tensor(count)


@pytest.mark.parametrize("sampling", ALL)
@pytest.mark.parametrize("kind", KINDS)
def test_both_ways_give_the_same_bits(kind: str, sampling: Sampling) -> None:
    size = 90
    for case, tokens in enumerate(([], [5], [700, 90, 89], [3, 3, 3, 8, 0, 8, 41] * 9)):
        logits = logits_of(kind, 1, size, case)[0]
        before = logits.clone()
        for start in {0, 1, len(tokens)}:
            mine = penalised(logits, sampling, tokens, start)
            rows = penalised_rows(
                logits[None], sampling, lambda i, t=tokens: counts(t[i:], size)[None], start
            )
            assert torch.equal(mine, rows[0])
            assert torch.equal(logits, before)


def test_no_penalty_copies_nothing() -> None:
    logits = torch.zeros(4)
    assert penalised(logits, Sampling(), [1, 2], 0) is logits
