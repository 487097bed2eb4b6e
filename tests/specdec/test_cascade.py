"""Copies first, else the model: who drafts follows from the tokens, and no word is changed."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

import pytest

from specdec.contract import NeverCancel, Round, Sampling
from specdec.detokenize import TextStream
from specdec.drafters.base import Context
from specdec.drafters.cascade import LONG_ENOUGH, CascadeDrafter
from specdec.drafters.length import DraftCost, Lengths
from specdec.drafters.model import ModelDrafter
from specdec.drafters.ngram import NgramDrafter
from specdec.drafters.none import NoDrafter
from specdec.drafters.plan import Length, Moment, Plan
from specdec.noise import Noise
from specdec.request import Rule
from specdec.turn import Task, Turn
from tests.fakes import TableScorer, disagreeing_pair

V, END = 12, 0
PROMPT = tuple([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5] * 2)


class Cycle:
    """k changes every round; notes the kinds of draft that were settled."""

    def __init__(self, *ks: int) -> None:
        self._ks = itertools.cycle(ks)
        self.outcomes: list[tuple[str, int, int]] = []

    def choose(self, moment: Moment) -> Plan:
        return Plan(next(self._ks))

    def learn(self, kind: str, drafted: int, accepted: int) -> None:
        self.outcomes.append((kind, drafted, accepted))


def cascade(seed: int = 1) -> tuple[CascadeDrafter, TableScorer, TableScorer]:
    p, q = disagreeing_pair(V, seed, spread=2.5)
    small = TableScorer(q, V)
    model = ModelDrafter(small, "small", V, frozenset({END}))
    return CascadeDrafter(model, NgramDrafter()), TableScorer(p, V), small


def run(
    drafter: CascadeDrafter | NoDrafter,
    target: TableScorer,
    length: Length,
    sampling: Sampling,
    rule: Rule = "match",
) -> tuple[Turn, list[Round]]:
    task = Task(PROMPT, sampling, rule, Noise.of(sampling.seed or 0, PROMPT), frozenset(), 4096)
    turn = Turn(task, target, drafter, length, TextStream(lambda ids: "x" * len(ids)))
    rounds = []
    for event in turn.run(NeverCancel()):
        if isinstance(event, Round):
            assert target.ids == turn.tokens[:-1]
            rounds.append(event)
    return turn, rounds


def context(tokens: Sequence[int], source: str = "") -> Context:
    return Context(tokens, len(PROMPT), Sampling(), "match", Noise(0, 0), source)


def test_a_copy_is_offered_after_a_long_run_only_and_before_the_model() -> None:
    both, _, small = cascade()
    assert (both.name, both.wants_hidden) == ("small", False)
    repeated = [1, 2, 3, 4, 5, 9, 1, 2, 3, 4]
    assert [o.source for o in both.offers(repeated)] == ["ngram", "small"]
    assert [o.source for o in both.offers(repeated[1:])] == ["small"]  # only three are repeated
    assert LONG_ENOUGH == 4
    draft = both.propose(context(repeated, "ngram"), 2)
    assert (draft.tokens, draft.laws) == ((5, 9), (None, None))
    assert both.propose(context(repeated), 2) == draft  # nobody named: the first offer
    assert small.calls == small.prefills == []
    named = both.propose(context(repeated, "small"), 2)
    assert named.laws[0] is not None


def test_the_model_catches_up_with_what_was_copied_meanwhile() -> None:
    both, _, small = cascade()
    text = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] * 4
    both.propose(context(text[:12], "small"), 3)
    both.settle(text[:12], 0)
    for end in range(14, 38, 4):
        both.propose(context(text[:end], "ngram"), 3)
        both.settle(text[: end + 3], 3)
    assert small.ids == text[:11]
    behind = both.offers(text)[1].behind
    assert behind == len(text) - 11
    both.propose(context(text, "small"), 1)
    assert small.ids == text


@pytest.mark.parametrize("temperature", [0, 0.8])
def test_match_says_what_plain_decoding_says(temperature: float) -> None:
    seen: Counter[str] = Counter()
    for seed in range(6):
        sampling = Sampling(temperature=temperature, max_tokens=150, seed=seed)
        _, target, _ = cascade(seed)
        plain, _ = run(NoDrafter(), target, Cycle(0), sampling)
        both, target, small = cascade(seed)
        length = Cycle(3, 7, 0, 1, 5)
        turn, rounds = run(both, target, length, sampling)
        assert turn.reply == plain.reply
        assert small.ids == turn.tokens[: small.length]
        for kind, drafted, accepted in length.outcomes:
            how = "full" if accepted == drafted else "partial" if accepted else "zero"
            seen[f"{kind[:5]} {how}"] += 1
        assert {r.source for r in rounds} <= {"", "ngram", "small"}
    assert min(seen["ngram full"], seen["small full"], seen["small zero"]) >= 5, seen
    assert temperature == 0 or seen["ngram zero"] >= 5, seen  # greedy, it goes round in loops


def test_the_policy_learns_by_source_and_says_the_same() -> None:
    known = Lengths({1: 1.0, 8: 1.2}, {"small": DraftCost(0.1, 0.01)}, 7)
    sampling = Sampling(temperature=0.7, max_tokens=300, seed=3)
    _, target, _ = cascade(3)
    plain, _ = run(NoDrafter(), target, Cycle(0), sampling)
    both, target, _ = cascade(3)
    turn, rounds = run(both, target, known.of("chat"), sampling)
    assert turn.reply == plain.reply
    assert {"ngram", "small"} <= {r.source for r in rounds}
    assert all(r.k >= r.drafted and r.reason for r in rounds)
