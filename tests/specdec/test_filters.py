"""Laws and draws against a full sort, against tokens recorded earlier, and what they may not do."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from specdec.drafters.base import Draft
from specdec.noise import Noise
from specdec.request import Sampling
from specdec.sampling import TINY, draw, law
from specdec.verify import Rows, judge
from tests.specdec.test_draws import settings

pytestmark = pytest.mark.usefixtures("one_thread")

V = 151_936
TOKENS = [3, 5, 5, 40, 7, 160_000, 5, 9]  # some beyond any vocabulary here
START = 3


def like_a_model(size: int, seed: int, ties: bool = False, lift: float = 5) -> Tensor:
    """A few likely ids over a wide tail; with ties as bf16 has them. Equal on every CPU."""
    dice = torch.Generator().manual_seed(seed)
    x = torch.rand(4, size, generator=dice).sum(0) * 4
    likely = torch.randint(0, size, (min(60, size // 2),), generator=dice)
    x[likely] += torch.rand(len(likely), generator=dice) * lift
    return x.bfloat16().float() if ties else x


# --- a full sort ----------------------------------------------------------------------------


def sorted_law(
    logits: Tensor, s: Sampling, tokens: Sequence[int], start: int
) -> tuple[list[int], Tensor]:
    """Ids and scores that survive, by the definition: dense counts, one stable sort."""
    size = len(logits)
    known = torch.tensor([t for t in tokens if t < size], dtype=torch.int64)
    reply = torch.tensor([t for t in tokens[start:] if t < size], dtype=torch.int64)
    seen = torch.bincount(known, minlength=size) > 0
    times = torch.bincount(reply, minlength=size)
    again = s.repetition_penalty
    if again != 1:
        logits = torch.where(seen, torch.where(logits > 0, logits / again, logits * again), logits)
    logits = logits - times * s.frequency_penalty - (times > 0) * s.presence_penalty
    if s.temperature == 0:
        return [int((logits == logits.max()).nonzero()[0])], torch.zeros(1)
    scores = (logits - float(logits.max())) / max(s.temperature, TINY)
    order = scores.sort(descending=True, stable=True)
    ids, kept = order.indices, order.values
    if 0 < s.top_k < size:
        ids, kept = ids[kept >= kept[s.top_k - 1]], kept[kept >= kept[s.top_k - 1]]
    if s.top_p < 1:
        need = float(scores[ids.sort().values].exp().sum()) * s.top_p
        running = kept.exp().cumsum(0)
        count = int((running < need).sum()) + 1
        if count > len(kept):  # no sum reaches it: whatever has mass stays
            count = int((kept > -105).sum())
        ids, kept = ids[:count], kept[:count]
    if s.min_p > 0:
        ids = ids[kept >= math.log(s.min_p)]
    ids = ids.sort().values
    return ids.tolist(), scores[ids]


def naive_draw(ids: list[int], scores: Tensor, noise: Noise, index: int) -> int:
    if len(ids) == 1:
        return ids[0]
    values = scores - noise.exponential(index, "target", torch.tensor(ids)).log()
    return ids[int((values == values.max()).nonzero()[0])]


def compare(size: int, cases: range) -> None:
    dice = random.Random(size)
    for case in cases:
        s, logits = settings(dice), like_a_model(size, case, ties=case % 2 == 0)
        if size > 9000 and s.temperature > 1 and s.top_p < 1:
            continue  # a nucleus of tens of thousands: its edge is a matter of rounding
        if case % 5 == 0 and size > 1:
            logits[size // 2 :] = -math.inf
        mine = law(logits, s, TOKENS, START)
        ids, scores = sorted_law(logits, s, TOKENS, START)
        assert mine.ids.tolist() == ids, (case, s)
        assert torch.equal(mine.scores, scores), (case, s)
        for index in range(4):
            noise = Noise.of(case, [1])
            assert draw(mine, noise, index, "target") == naive_draw(ids, scores, noise, index)


@pytest.mark.parametrize("size", [1, 2, 50, 63, 64, 65, 513, 1000, 4097])
def test_the_law_and_the_draw_of_a_full_sort(size: int) -> None:
    compare(size, range(60))


@pytest.mark.parametrize("size", [50_257, V])
def test_the_law_and_the_draw_of_a_full_sort_of_a_whole_vocabulary(size: int) -> None:
    compare(size, range(12))


@pytest.mark.slow
@pytest.mark.parametrize("size", [513, 32_000, 50_257, V])
def test_the_law_and_the_draw_of_a_full_sort_in_hundreds(size: int) -> None:
    compare(size, range(100, 500))


# --- recorded -------------------------------------------------------------------------------

KINDS: dict[str, Sampling] = {
    "plain": Sampling(temperature=0.8),
    "hot": Sampling(temperature=2.5),
    "top-k": Sampling(temperature=0.8, top_k=40),
    "top-p": Sampling(temperature=0.8, top_p=0.9),
    "min-p": Sampling(temperature=0.8, min_p=0.05),
    "again": Sampling(temperature=0.8, repetition_penalty=1.3),
    "often": Sampling(temperature=0.8, frequency_penalty=0.5, presence_penalty=0.5),
    "all": Sampling(0.8, 40, 0.9, 0.02, 1.1, 0.2, 0.1),
}

RECORDED: dict[tuple[str, int], list[int]] = {
    ("plain", 50): [22, 22, 22, 22, 22, 22],
    ("plain", 1000): [736, 377, 9, 724, 9, 724],
    ("plain", V): [87877, 147040, 47515, 33565, 104114, 104845],
    ("hot", 50): [38, 22, 24, 22, 28, 22],
    ("hot", 1000): [577, 22, 24, 387, 991, 444],
    ("hot", V): [88670, 147040, 70093, 33565, 137775, 12453],
    ("top-k", 50): [22, 22, 22, 22, 22, 22],
    ("top-k", 1000): [736, 377, 9, 724, 9, 724],
    ("top-k", V): [95130, 95130, 105939, 95130, 105939, 95130],
    ("top-p", 50): [22, 22, 22, 22, 22, 22],
    ("top-p", 1000): [736, 377, 9, 724, 9, 724],
    ("top-p", V): [87877, 147040, 47515, 141110, 104114, 104845],
    ("min-p", 50): [22, 22, 22, 22, 22, 22],
    ("min-p", 1000): [736, 377, 9, 724, 9, 724],
    ("min-p", V): [95130, 95130, 95130, 95130, 95130, 95130],
    ("again", 50): [22, 22, 22, 22, 22, 22],
    ("again", 1000): [736, 377, 724, 724, 521, 724],
    ("again", V): [87877, 147040, 47515, 33565, 104114, 104845],
    ("often", 50): [22, 22, 22, 22, 22, 22],
    ("often", 1000): [736, 377, 724, 724, 521, 724],
    ("often", V): [87877, 147040, 47515, 33565, 104114, 104845],
    ("all", 50): [22, 22, 22, 22, 22, 22],
    ("all", 1000): [736, 377, 724, 724, 521, 724],
    ("all", V): [95130, 95130, 105939, 95130, 105939, 95130],
}


@pytest.mark.parametrize(("kind", "size"), RECORDED)
def test_the_tokens_of_a_seed_never_change(kind: str, size: int) -> None:
    """Made by the code before blocks of ids: a stored reply can be had again from its seed."""
    logits, noise = like_a_model(size, 7), Noise.of(11, [1, 2])
    p = law(logits, KINDS[kind], TOKENS, START)
    assert [draw(p, noise, i, "target") for i in range(6)] == RECORDED[kind, size]


# --- the hot path ---------------------------------------------------------------------------


class Watch(TorchDispatchMode):
    """Notes what puts in order, or counts out, at least half of a vocabulary."""

    COSTLY = ("sort", "topk", "kthvalue", "_unique2", "unique_dim", "nonzero", "bincount")

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in self.COSTLY and args[0].numel() > V // 2:
            self.seen.append(name)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("lift", [11, 14])
@pytest.mark.parametrize("rule", ["match", "reject"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_round_puts_a_vocabulary_in_order(kind: str, rule: Any, lift: float) -> None:
    logits = torch.stack([like_a_model(V, i, lift=lift) for i in range(2)])
    rows = Rows(logits, KINDS[kind], TOKENS, START)
    likely = int(rows.logits[0].argmax())
    with Watch() as watch:
        judge(rule, Draft((likely,), (None,)), rows, Noise.of(1, [2]), 0)
    assert watch.seen == []


def test_the_watch_sees_a_sort() -> None:
    with Watch() as watch:
        sorted_law(like_a_model(V, 0), KINDS["top-p"], TOKENS, START)
    assert "sort" in watch.seen
