"""A draft made on the device is the draft made token by token, and asks the host for nothing."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import torch

from specdec.bench.forced import Forced
from specdec.cache import FallbackScorer
from specdec.captured import CapturedScorer
from specdec.decoder import Weights
from specdec.draft_steps import draft_steps, on_device_scorer
from specdec.drafters.base import Context, Draft
from specdec.graphs import Graphs
from specdec.loading import load_model
from specdec.noise import Noise
from specdec.request import Sampling
from specdec.runner import Layout, LeanScorer
from specdec.sampling import draw, law
from tests.fakes import TableScorer, random_table
from tests.specdec.graph_kit import Recorder
from tests.specdec.reads_kit import Reads
from tests.tiny import TOKENS, tiny_model

pytestmark = pytest.mark.usefixtures("one_thread")

K, WIDTH = 6, 8
LAYOUT = Layout(WIDTH, tuple(range(1, WIDTH + 1)), True, doubling=True)
PROMPT = random.Random(2).choices(range(TOKENS), k=40)
SETTINGS = [
    Sampling(temperature=0),
    Sampling(temperature=0, repetition_penalty=1.5, frequency_penalty=0.8),
    Sampling(temperature=0.9),
    Sampling(temperature=0.9, top_k=20, min_p=0.01, presence_penalty=0.9),
    Sampling(temperature=0.7, top_p=0.9, repetition_penalty=1.2),
]


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Weights:
    folder = tiny_model(tmp_path_factory.mktemp("draft"), "llama", seed=4)
    weights = load_model(folder, torch.device("cpu"), torch.float32).weights
    assert weights is not None
    return weights


def warm(scorer: LeanScorer) -> LeanScorer:
    """All but the last three tokens are read."""
    scorer.prefill(PROMPT[:37])
    return scorer


def at_once(
    scorer: LeanScorer, context: Context, vocab: int = TOKENS, ends: frozenset[int] = frozenset()
) -> list[int]:
    held = draft_steps(scorer, PROMPT[37:], context, K, vocab, ends)
    return list(Draft(held=held).read().tokens)


def one_by_one(scorer: LeanScorer, context: Context) -> list[int]:
    known, fresh = list(context.tokens), list(context.tokens[37:])
    for _ in range(K):
        q = law(scorer.score(fresh)[-1], context.sampling, known, context.reply_start)
        index = len(known) - context.reply_start
        fresh = [draw(q, context.noise, index, "target")]
        known += fresh
    return known[len(context.tokens) :]


@pytest.mark.parametrize("sampling", SETTINGS, ids=range(len(SETTINGS)))
def test_the_tokens_are_those_drawn_one_by_one(weights: Weights, sampling: Sampling) -> None:
    for seed in range(4):
        context = Context(PROMPT, 30, sampling, "match", Noise.of(seed, PROMPT))
        plain = warm(LeanScorer(weights, LAYOUT, 100, TOKENS, False))
        graphs = Graphs(Recorder())
        captured = warm(CapturedScorer(weights, LAYOUT, 100, TOKENS, False, graphs))
        assert at_once(captured, context) == one_by_one(plain, context)
        assert captured.length == plain.length == len(PROMPT) + K - 1
        assert graphs.count == 2  # three rows first, then one at a time


def test_nothing_is_read(weights: Weights) -> None:
    sampling = Sampling(0.8, 40, 0.9, 0.02, 1.2, 0.1, 0.1)
    context = Context(PROMPT, 30, sampling, "match", Noise.of(0, PROMPT))
    scorer = warm(LeanScorer(weights, LAYOUT, 100, TOKENS, False))
    with Reads() as reads:
        held = draft_steps(scorer, PROMPT[37:], context, K, TOKENS, frozenset())
        held.after(3)
    assert reads.seen == []
    assert held.after(3).tolist() == [3, *held.ids.tolist()]
    scorer.rewind(37)
    with Reads() as reads:
        one_by_one(scorer, context)
    assert len(reads.seen) >= K


def test_ids_the_target_does_not_know_are_not_drafted(weights: Weights) -> None:
    context = Context(PROMPT, 30, Sampling(temperature=5), "match", Noise.of(0, PROMPT))
    scorer = warm(LeanScorer(weights, LAYOUT, 100, TOKENS, False))
    assert max(at_once(scorer, context, vocab=10)) < 10


def test_what_follows_an_end_id_is_left_out(weights: Weights) -> None:
    context = Context(PROMPT, 30, Sampling(temperature=5), "match", Noise.of(0, PROMPT))
    whole = at_once(warm(LeanScorer(weights, LAYOUT, 100, TOKENS, False)), context)
    assert len(set(whole)) == K
    for place, end in enumerate(whole):
        scorer = warm(LeanScorer(weights, LAYOUT, 100, TOKENS, False))
        assert at_once(scorer, context, ends=frozenset({end, -1})) == whole[: place + 1]


def test_a_step_without_numbers_shows_in_its_top(weights: Weights) -> None:
    class Broken(LeanScorer):
        def score_tensor(self, ids: torch.Tensor) -> torch.Tensor:
            logits = super().score_tensor(ids)
            return logits * torch.nan if self.length == len(PROMPT) + 2 else logits

    context = Context(PROMPT, 30, Sampling(temperature=0.8), "match", Noise.of(0, PROMPT))
    scorer = warm(Broken(weights, LAYOUT, 100, TOKENS, False))
    held = draft_steps(scorer, PROMPT[37:], context, K, TOKENS, frozenset())
    tops = Draft(held=held).read().tops
    assert [math.isfinite(top) for top in tops[:3]] == [True, True, False]


def test_who_drafts_on_the_device(weights: Weights, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer: Any = LeanScorer(weights, LAYOUT, 100, TOKENS, False)
    greedy, warm_ = Sampling(temperature=0), Sampling(temperature=0.8)

    def stays(where: str, sampling: Sampling, rule: Any = "match") -> bool:
        monkeypatch.setattr(LeanScorer, "device", torch.device(where))
        context = Context(PROMPT, 30, sampling, rule, Noise.of(0, PROMPT))
        return on_device_scorer(scorer, context) is scorer

    assert stays("cuda", greedy)
    assert stays("cuda", warm_)
    assert not stays("cuda", warm_, "reject")
    assert stays("mps", greedy)
    assert not stays("mps", warm_)
    assert not stays("cpu", greedy)
    scorer = Forced(scorer, 0.5)  # as bench wraps one: it must be timed as it would run
    assert stays("cuda", greedy)
    assert not stays("cpu", greedy)
    context = Context(PROMPT, 30, greedy, "match", Noise.of(0, PROMPT))
    assert on_device_scorer(TableScorer(random_table(5, 1), 5), context) is None
    assert not hasattr(FallbackScorer, "device")  # it keeps ids, so it would read each
