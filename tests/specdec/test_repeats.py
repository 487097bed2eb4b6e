"""Copies alone, on text that repeats and on text that does not ("done when" 4 of issue 4).

The clock is virtual: only the target's passes move it, by rows.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from specdec.contract import Finished, NeverCancel, Sampling
from specdec.detokenize import TextStream
from specdec.drafters.base import Drafter
from specdec.drafters.length import FixedLength, Lengths
from specdec.drafters.ngram import NgramDrafter
from specdec.drafters.none import NoDrafter
from specdec.drafters.store import ReplyStore
from specdec.noise import Noise
from specdec.turn import Task, Turn
from tests.fakes import TableScorer, scripted_table

pytestmark = pytest.mark.usefixtures("one_thread")

V = 600
FLAT = {1: 1.0, 8: 1.0}
TWIN = {1: 1.0, 2: 2.2, 4: 2.7, 8: 3.2}
PACKED = {w: float(w) for w in range(1, 9)}


class Timed(TableScorer):
    """A scorer whose calls take their rows' time."""

    now = 0.0

    def __init__(self, reply: Sequence[int], start: int, rows: dict[int, float]) -> None:
        super().__init__(scripted_table(reply, start, V), V, chunk=64, width=8)
        self._costs = Lengths(rows, {}, 7).score

    def score(self, ids: Sequence[int]) -> torch.Tensor:
        self.now += self._costs[len(ids) - 1]
        return super().score(ids)


def run(
    prompt: Sequence[int],
    reply: Sequence[int],
    drafter: Drafter,
    rows: dict[int, float],
    pair: Lengths | None = None,
) -> tuple[Finished, float]:
    """The reply as the table says it, and the seconds of its passes."""
    target = Timed(reply, len(prompt), rows)
    sampling = Sampling(temperature=0, max_tokens=len(reply))
    task = Task(tuple(prompt), sampling, "match", Noise(0, 0), frozenset({0}), 8192)
    length = pair.of("chat") if pair else FixedLength(0)
    text = TextStream(lambda ids: "x" * len(ids))
    turn = Turn(task, target, drafter, length, text, lambda: target.now)
    last = list(turn.run(NeverCancel()))[-1]
    assert isinstance(last, Finished)
    assert last.ids == tuple(reply)
    return last, target.now


def prose(count: int, seed: int) -> list[int]:
    """Words as in a text: a few are everywhere, most are rare, and no phrase is meant."""
    coin = random.Random(seed)
    weights = [1 / rank for rank in range(1, V)]
    return coin.choices(range(1, V), weights, k=count)


def edited(file: Sequence[int], every: int) -> list[int]:
    """The file again, one word replaced in so many."""
    return [V - 1 if i % every == every - 1 else word for i, word in enumerate(file)]


def quoting(text: Sequence[int], seed: int) -> list[int]:
    """Quotes of 30 to 60 words from anywhere, with 4 words of one's own between them."""
    coin, said = random.Random(seed), list[int]()
    while len(said) < 300:
        start = coin.randrange(len(text) - 60)
        said += [*prose(4, start), *text[start : start + coin.randrange(30, 60)]]
    return said


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["edit", "quote"])
def test_at_least_four_tokens_a_round_where_text_repeats(kind: str, seed: int) -> None:
    file = prose(400, seed)
    reply = edited(file, 25) if kind == "edit" else quoting(file, seed)
    last, seconds = run(file, reply, NgramDrafter(), FLAT, Lengths(FLAT, {}, 7))
    assert last.metrics.tokens_per_round >= 4
    assert seconds <= len(reply) / 4


def test_an_earlier_reply_is_copied_from_its_second_word_on(tmp_path: Path) -> None:
    """What the store adds: nothing of the reply is in the prompt."""
    prompt, said = prose(100, 1), prose(300, 2)
    reply = edited(said, 40)
    alone, _ = run(prompt, reply, NgramDrafter(), FLAT, Lengths(FLAT, {}, 7))
    store = ReplyStore(tmp_path, "ab" * 32, V)
    with store.lending("then") as lease:
        lease.keep(said)
    with store.lending("now"):
        both, _ = run(prompt, reply, NgramDrafter(store), FLAT, Lengths(FLAT, {}, 7))
    assert both.metrics.tokens_per_round >= 4
    assert both.metrics.tokens_per_round > 3 * alone.metrics.tokens_per_round


@pytest.mark.parametrize("rows", [FLAT, TWIN, PACKED], ids=["flat", "twin", "packed"])
@pytest.mark.parametrize("seed", range(2))
def test_at_most_two_percent_where_nothing_repeats(rows: dict[int, float], seed: int) -> None:
    prompt, reply = prose(300, seed), prose(512, seed + 100)
    _, plain = run(prompt, reply, NoDrafter(), rows)
    _, drafted = run(prompt, reply, NgramDrafter(), rows, Lengths(rows, {}, 7))
    assert drafted <= 1.02 * plain
