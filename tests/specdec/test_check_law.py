"""The law test of a check: a right rule passes, planted faults do not. And (c), the replay."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from specdec import check_law
from specdec.check_law import (
    LawTest,
    Rule,
    Tree,
    drafter_guesses,
    joint,
    law_test,
    second_best,
    surprise,
    target_laws,
)
from specdec.check_replay import Other, fill, replay
from specdec.drafters.base import Draft
from specdec.drafters.model import ModelDrafter
from specdec.drafters.ngram import NgramDrafter
from specdec.noise import Noise
from specdec.request import Sampling
from specdec.sampling import draw
from specdec.trial import Said
from specdec.turn import Task
from specdec.verify import Laws, Outcome, reject
from tests.fakes import Table, TableScorer, disagreeing_pair, random_table

pytestmark = pytest.mark.usefixtures("one_thread")

V, END = 12, 0
TOKENS = (3, 4, 5, 3, 4)
P = random_table(V, seed=4)
FEW = 6  # both laws see most of the same tokens, so that every fault shows
P_FEW, Q_FEW = disagreeing_pair(FEW, seed=4, agree=0.0, spread=1.2)


def sampled(rule: Rule, draft: str = "model", samples: int = 250) -> LawTest:
    scorer = TableScorer(P_FEW, FEW)
    fill(scorer, TOKENS[:-1])
    laws = target_laws(scorer, TOKENS)
    assert scorer.ids == list(TOKENS[:-1])
    if draft == "model":
        drafter = ModelDrafter(TableScorer(Q_FEW, FEW), "q", FEW, frozenset())
        guesses = drafter_guesses(drafter, TOKENS, laws)
    else:
        guesses = second_best(laws)
    return law_test(draft, Tree(laws, guesses), TOKENS, samples, rule)


def accept_all(draft: Draft, laws: Laws, noise: Noise, index: int) -> Outcome:
    """Keeps whatever was drafted."""
    k = len(draft.tokens)
    return Outcome(k, (*draft.tokens, draw(laws(k), noise, index + k, "residual")))


def no_residual(draft: Draft, laws: Laws, noise: Noise, index: int) -> Outcome:
    """Corrects from p itself instead of norm(max(p - q, 0))."""
    found = reject(draft, laws, noise, index)
    if found.accepted == len(draft.tokens):
        return found
    wrong = draw(laws(found.accepted), noise, index + found.accepted, "residual")
    return Outcome(found.accepted, (*found.tokens[:-1], wrong))


def shared_noise(draft: Draft, laws: Laws, noise: Noise, index: int) -> Outcome:
    """Corrects with the noise the draft was drawn with."""
    found = reject(draft, laws, noise, index)
    if found.accepted == len(draft.tokens):
        return found
    wrong = draw(laws(found.accepted), noise, index + found.accepted, "draft")
    return Outcome(found.accepted, (*found.tokens[:-1], wrong))


@pytest.mark.parametrize("draft", ["model", "second best"])
def test_reject_passes(draft: str) -> None:
    test = sampled(reject, draft)
    assert test.holds
    assert test.strays == 0
    assert abs(test.z) < 4
    assert 0 < test.accepted < test.drafted  # something was at risk


@pytest.mark.parametrize("draft", ["model", "second best"])
@pytest.mark.parametrize("mutant", [accept_all, no_residual])
def test_planted_faults_are_caught(mutant: Rule, draft: str) -> None:
    assert not sampled(mutant, draft).holds


def test_noise_shared_with_the_draft_is_caught() -> None:
    assert not sampled(shared_noise).holds


def test_a_token_without_mass_is_a_fault_by_itself() -> None:
    def stray(draft: Draft, laws: Laws, noise: Noise, index: int) -> Outcome:
        found = reject(draft, laws, noise, index)
        if index == 0 and noise.seed == 7:
            return Outcome(0, (FEW + 5,))
        return found

    test = sampled(stray)
    assert (test.strays, test.holds) == (1, False)
    assert abs(test.z) < check_law.LIMIT


def test_the_tree_is_the_law_of_three_tokens() -> None:
    scorer = TableScorer(P, V)
    fill(scorer, TOKENS[:-1])
    laws = target_laws(scorer, TOKENS)
    exact = joint(laws)
    assert len(laws) == 1 + 5 + 25
    assert len(exact) == 125
    assert sum(exact.values()) == pytest.approx(1.0, abs=1e-5)
    assert surprise({path: round(1e6 * mass) for path, mass in exact.items()}, exact) < 0


def test_a_drafter_with_nothing_to_say_drafts_nothing() -> None:
    scorer = TableScorer(P, V)
    tokens = (1, 2, 3, 4)
    fill(scorer, tokens[:-1])
    laws = target_laws(scorer, tokens)
    guesses = drafter_guesses(NgramDrafter(), tokens, laws)
    assert guesses[()].token is None
    assert law_test("ngram", Tree(laws, guesses), tokens, 50).drafted == 0


# --- (c): the replay ----------------------------------------------------------------------------

Shift = Callable[[tuple[int, ...]], torch.Tensor]


def moved(table: Table, token: int, by: float) -> Table:
    """The table with one token's logit moved."""

    def other(tokens: tuple[int, ...]) -> torch.Tensor:
        row = table(tokens).clone()
        row[token] += by
        return row

    return other


def task(temperature: float) -> Task:
    sampling = Sampling(temperature=temperature, seed=1, max_tokens=20)
    return Task((3, 4, 5), sampling, "match", Noise.of(1, (3, 4, 5)), frozenset({END}), 99)


def said_by(table: Table, job: Task, count: int = 8) -> Said:
    """Plain decoding by hand."""
    from specdec.sampling import law

    tokens = list(job.prompt)
    for index in range(count):
        found = law(table(tuple(tokens)), job.sampling, tokens, len(job.prompt))
        token = draw(found, job.noise, index, "target")
        if token == END:
            return Said(tuple(tokens[len(job.prompt) :]), "end")
        tokens.append(token)
    return Said(tuple(tokens[len(job.prompt) :]), "length")


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_reply_of_the_plain_model_is_its_choice_throughout(temperature: float) -> None:
    job = task(temperature)
    said = said_by(P, job)
    result = replay(job, said, TableScorer(P, V), TableScorer(P, V))
    assert result.others == ()
    assert result.tokens == len(said.ids) + (said.reason == "end") == len(result.entropy)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_token_that_nobody_chose_is_not_explained(temperature: float) -> None:
    job = task(temperature)
    said = said_by(P, job)
    wrong = Said((*said.ids[:2], said.ids[2] % (V - 1) + 1, *said.ids[3:]), said.reason)
    result = replay(job, wrong, TableScorer(P, V), TableScorer(P, V, width=2))
    first = result.others[0]
    assert (first.place, first.expected, first.got) == (2, said.ids[2], wrong.ids[2])
    assert first.gap > 0
    assert first.spread == 0
    assert not first.explained


@pytest.mark.parametrize(("gap", "explained"), [(0.0, True), (0.99, True), (1.01, False)])
def test_twice_the_spread_is_the_border(gap: float, explained: bool) -> None:
    assert Other(0, 1, 2, gap, spread=0.5).explained == explained


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_what_the_runners_differ_by_explains_twice_as_much(temperature: float) -> None:
    """The maker lifts one token: where that decides, the gap is within what the lift explains."""
    job = task(temperature)
    made = moved(P, 7, 1.5)
    said = said_by(made, job)
    result = replay(job, said, TableScorer(P, V), TableScorer(made, V))
    assert result.others
    for other in result.others:
        assert other.got == 7
        assert other.spread == pytest.approx(1.5 / (temperature or 1.0), rel=1e-4)
        assert 0 < other.gap <= other.spread + 1e-4
        assert other.explained
    close = replay(job, said, TableScorer(P, V), TableScorer(moved(P, 7, 0.01), V))
    assert any(not other.explained for other in close.others)


def test_the_end_is_a_choice_as_well() -> None:
    """Plain decoding would have gone on: that is seen, and not explained."""
    job = task(0.0)
    said = said_by(moved(P, END, -99.0), job)
    ended = Said(said.ids[:3], "end")
    result = replay(job, ended, *(TableScorer(moved(P, END, -99.0), V) for _ in range(2)))
    assert result.tokens == 4
    assert [(o.place, o.got, o.explained) for o in result.others] == [(3, END, False)]
    ending = moved(P, END, 99.0)
    assert replay(job, Said((), "end"), TableScorer(ending, V), TableScorer(ending, V)).others == ()
