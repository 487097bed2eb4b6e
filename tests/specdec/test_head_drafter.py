"""A trained head drafts: the same words as plain decoding, whatever it misses, by both rules.

Real decoders with random weights over 12 ids, 8 of which the head knows, so that all of full,
partial and no acceptance occur.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import pytest
import torch

from specdec.contract import Finished, NeverCancel, Notice, Round, Sampling
from specdec.decoder import Weights
from specdec.detokenize import TextStream
from specdec.drafters.base import Context, Draft, Drafter
from specdec.drafters.cascade import CascadeDrafter
from specdec.drafters.head import HeadDrafter
from specdec.drafters.ngram import NgramDrafter
from specdec.drafters.none import NoDrafter
from specdec.drafters.plan import Moment, Plan
from specdec.heads.module import Head
from specdec.heads.reader import load_head
from specdec.heads.runner import HeadRunner
from specdec.heads.states import States
from specdec.loading import load_model
from specdec.noise import Noise
from specdec.request import Rule
from specdec.runner import Layout, LeanScorer
from specdec.scorer import Scorer
from specdec.session import Cached
from specdec.turn import Task, Turn
from tests.fakes import TableScorer, random_table
from tests.specdec.head_kit import config_of, tensors_of, write_head
from tests.tiny import tiny_model

V, CONTEXT = 12, 400
PROMPT = tuple((7 * i * i + i) % 11 + 1 for i in range(90))  # more than a chunk
LAYERS = (0, 1, 2)

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Weights:
    folder = tiny_model(tmp_path_factory.mktemp("target"), hidden_size=32)
    weights = load_model(folder, torch.device("cpu"), torch.float32).weights
    assert weights is not None
    return weights


@pytest.fixture(scope="module")
def head(target: Weights, tmp_path_factory: pytest.TempPathFactory) -> Head:
    config = config_of("llama", drafts=8, vocab_size=V)
    folder = tmp_path_factory.mktemp("head")
    return load_head(
        write_head(folder, config, tensors_of(config, 5)), target, torch.float32, "dense"
    )


def scorer(target: Weights) -> LeanScorer:
    return LeanScorer(target, Layout(8, (8,), True), CONTEXT, V, True)


def drafter(head: Head, most: int = CONTEXT) -> HeadDrafter:
    return HeadDrafter(HeadRunner(head, CONTEXT, V), States(LAYERS, most), "head", frozenset({0}))


class Cycle:
    """k changes every round, 0 included."""

    def __init__(self, *ks: int) -> None:
        self._ks = itertools.cycle(ks)
        self.kept: list[tuple[int, int]] = []

    def choose(self, moment: Moment) -> Plan:
        return Plan(next(self._ks))

    def learn(self, kind: str, drafted: int, accepted: int) -> None:
        self.kept.append((drafted, accepted))


def reply(
    target: Scorer,
    drafter: Drafter,
    length: Cycle,
    prompt: Sequence[int] = PROMPT,
    sampling: Sampling | None = None,
    rule: Rule = "match",
    seed: int = 3,
    stop_after: int = 10**9,
) -> list[int]:
    """The ids of one reply; `stop_after` rounds it is left."""
    sampling = sampling or Sampling(temperature=1.5, max_tokens=40)
    noise = Noise.of(seed, prompt)
    task = Task(tuple(prompt), sampling, rule, noise, frozenset({0}), CONTEXT)
    turn = Turn(task, target, drafter, length, TextStream(lambda ids: "x" * len(ids), ()))
    rounds = 0
    events = turn.run(NeverCancel())
    for event in events:
        assert not (isinstance(event, Notice) and "failed" in event.text), event
        rounds += isinstance(event, Round)
        if isinstance(event, Finished) or rounds > stop_after:
            break
    events.close()  # type: ignore[attr-defined]
    return turn.tokens[len(prompt) :]


SETTINGS = [
    Sampling(temperature=0, max_tokens=40),
    Sampling(temperature=1.5, max_tokens=40),
    Sampling(temperature=0.8, top_k=6, top_p=0.9, repetition_penalty=1.2, max_tokens=40),
]


@pytest.mark.parametrize("sampling", SETTINGS, ids=["greedy", "warm", "shaped"])
@pytest.mark.parametrize("ks", [(7,), (3, 0, 7, 1, 0, 0, 0, 5)], ids=["k 7", "k changes"])
def test_the_words_are_those_of_plain_decoding(
    sampling: Sampling, ks: tuple[int, ...], target: Weights, head: Head
) -> None:
    outcomes = []
    for seed in range(2):
        plain = reply(scorer(target), NoDrafter(), Cycle(0), sampling=sampling, seed=seed)
        length = Cycle(*ks)
        assert (
            reply(scorer(target), drafter(head), length, (*PROMPT,), sampling, seed=seed) == plain
        )
        outcomes += length.kept
    assert any(accepted for _, accepted in outcomes)
    assert any(accepted < drafted for drafted, accepted in outcomes)


def test_all_some_and_none_are_kept_and_more_than_chance(target: Weights, head: Head) -> None:
    length = Cycle(3)
    for seed in range(4):
        reply(scorer(target), drafter(head), length, seed=seed)
    kept = [accepted for _, accepted in length.kept]
    assert {0, 1, 3} <= set(kept)
    assert sum(kept) / sum(drafted for drafted, _ in length.kept) > 2 / V


def proposal(head: Head, target: Weights, tokens: Sequence[int], k: int = 5) -> Draft:
    """What a head drafts that is told of `tokens` for the first time."""
    other, known = scorer(target), drafter(head)
    known.watch(other)
    read(other, tokens)
    return known.propose(context(tokens), k)


def read(target: LeanScorer, tokens: Sequence[int]) -> None:
    """All but the last token, in chunks."""
    while (done := target.length) < len(tokens) - 1:
        border = (done // target.chunk + 1) * target.chunk
        target.prefill(tokens[done : min(border, len(tokens) - 1)])


def context(tokens: Sequence[int]) -> Context:
    sampling = Sampling(temperature=1.5)
    return Context(tokens, len(PROMPT), sampling, "match", Noise.of(1, PROMPT))


def turns(rng: Iterator[int]) -> Iterator[tuple[int, ...]]:
    """Prompts of a chat: longer, edited early and late, the same again, another chat."""
    said = [next(rng) for _ in range(300)]
    yield tuple(said[:100])
    yield tuple(said[:180])
    yield tuple(said[:180])
    yield (*said[:150], *said[200:250])
    yield (*said[:30], *said[250:300])
    yield tuple(said[200:])


def test_through_edits_pauses_and_stops_it_drafts_as_if_it_had_just_read_all(
    target: Weights, head: Head
) -> None:
    """Prefix reuse, regenerate and rounds without a draft lose no state that is kept."""
    noise = torch.Generator().manual_seed(2)
    rng = iter(lambda: int(torch.randint(1, V, (), generator=noise)), -1)
    cached, known = Cached(scorer(target)), drafter(head)
    for count, prompt in enumerate(turns(rng)):
        cached.keep_prefix(prompt, fresh=False)
        stop = 10**9 if count % 2 else 4
        said = reply(cached.scorer, known, Cycle(0, 3, 0, 0, 5), prompt, stop_after=stop)
        tokens = [*prompt, *said]
        cached.ids = tuple(tokens[: cached.scorer.length])
        mine, fresh = known.propose(context(tokens), 5), proposal(head, target, tokens)
        assert mine.tokens == fresh.tokens
        for p, q in zip(mine.laws, fresh.laws, strict=True):  # one wrong row is seen here
            assert p is not None
            assert q is not None
            assert (p.dense() - q.dense()).abs().max() < 1e-4


def test_states_nobody_kept_make_it_begin_anew_and_change_no_word(
    target: Weights, head: Head
) -> None:
    plain = reply(scorer(target), NoDrafter(), Cycle(0))
    few = drafter(head, most=20)
    length = Cycle(3)
    assert reply(scorer(target), few, length) == plain
    assert any(accepted for _, accepted in length.kept)
    one, known = Cached(scorer(target)), drafter(head)
    one.keep_prefix(PROMPT, fresh=True)
    reply(one.scorer, NoDrafter(), Cycle(0))  # a plain reply: nobody asked for its states
    one.scorer.rewind(64)
    assert reply(one.scorer, known, Cycle(3)) == plain
    assert reply(scorer(target), known, Cycle(3)) == plain  # another sequence's states are let go


def test_plain_replies_hand_out_nothing(target: Weights, head: Head) -> None:
    runner, known = scorer(target), drafter(head)
    states = known._states
    reply(runner, known, Cycle(3))
    assert states.end > len(PROMPT)
    assert not states.open
    runner.rewind(70)
    assert states.end == 70
    reply(runner, NoDrafter(), Cycle(0))
    assert states.end == 70


def test_a_target_without_states_goes_on_without_a_draft(head: Head) -> None:
    target = TableScorer(random_table(V, 3), V)
    plain = reply(TableScorer(random_table(V, 3), V), NoDrafter(), Cycle(0))
    task = Task(
        PROMPT,
        Sampling(temperature=1.5, max_tokens=40),
        "match",
        Noise.of(3, PROMPT),
        frozenset({0}),
        CONTEXT,
    )
    turn = Turn(task, target, drafter(head), Cycle(3), TextStream(lambda ids: "x" * len(ids), ()))
    said = [event.text for event in turn.run(NeverCancel()) if isinstance(event, Notice)]
    assert turn.tokens[len(PROMPT) :] == plain
    assert "does not hand out" in said[0]


def test_copies_come_first_in_a_cascade_and_the_head_catches_up(
    target: Weights, head: Head
) -> None:
    prompt = (*PROMPT[:40], *PROMPT[:40], *PROMPT[:20])
    plain = reply(scorer(target), NoDrafter(), Cycle(0), prompt)
    both = CascadeDrafter(drafter(head), NgramDrafter())
    assert both.wants_hidden
    assert reply(scorer(target), both, Cycle(5, 2), prompt) == plain


def test_nothing_is_drafted_after_an_end_id_nor_outside_its_ids(
    target: Weights, head: Head
) -> None:
    assert head.ids is not None
    mine = set(head.ids.tolist())
    runner, known = scorer(target), drafter(head)
    known.watch(runner)
    read(runner, PROMPT)
    draft = known.propose(context(PROMPT), 7)
    assert set(draft.tokens) <= mine
    for q in draft.laws:
        assert q is not None
        assert {i for i, mass in enumerate(q.dense().tolist()) if mass} <= mine
    ended = HeadDrafter(HeadRunner(head, CONTEXT, V), States(LAYERS), "h", frozenset(draft.tokens))
    again = scorer(target)
    ended.watch(again)
    read(again, PROMPT)
    assert ended.propose(context(PROMPT), 7).tokens == draft.tokens[:1]
