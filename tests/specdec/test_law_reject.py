"""`reject` through the real loop: the joint law of three tokens against the exact one.

V = 5, an end token inside, filters and penalties on, a draft law that depends on the prefix. The
first token of a reply is never drafted, so the tables force it and the three after it count.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence

import pytest
import torch

from specdec.contract import NeverCancel, Round
from specdec.detokenize import TextStream
from specdec.drafters.auto import AutoDrafter
from specdec.drafters.base import Drafter
from specdec.drafters.cascade import CascadeDrafter
from specdec.drafters.model import ModelDrafter
from specdec.drafters.ngram import NgramDrafter
from specdec.drafters.plan import Moment, Plan
from specdec.noise import Noise
from specdec.request import Rule, Sampling
from specdec.sampling import law
from specdec.turn import Task, Turn
from tests.fakes import Proposing, Table, TableScorer, Withdrawing, disagreeing_pair, random_table
from tests.specdec.tongue_kit import letters_drafter

V, END, FIRST = 5, 0, 1
PROMPT = (2, 3)
REPEATS = (4, 3, 2, 1, 2, 4, 3, 1, 4, 3, 2)  # with FIRST, four tokens that were seen before
SAMPLES = 700
PLAIN = Sampling(temperature=1.0, max_tokens=9)
SHAPED = Sampling(
    temperature=0.9,
    top_k=4,
    top_p=0.97,
    min_p=0.02,
    repetition_penalty=1.2,
    frequency_penalty=0.3,
    presence_penalty=0.2,
    max_tokens=9,
)
Cells = dict[tuple[int, ...], float]


pytestmark = pytest.mark.usefixtures("one_thread")


def tables(prompt: tuple[int, ...] = PROMPT) -> tuple[Table, Table]:
    p, q = disagreeing_pair(V, seed=8, agree=0.25, spread=1.1)

    def forced(tokens: tuple[int, ...]) -> torch.Tensor:
        if len(tokens) > len(prompt):
            return p(tokens)
        return torch.nn.functional.one_hot(torch.tensor(FIRST), V) * 99.0

    return forced, q


class Cycle:
    """k changes every round, and never looks at a sample."""

    def __init__(self, ks: Sequence[int], least: tuple[float, ...] = ()) -> None:
        self._ks = itertools.cycle(ks)
        self._least = least

    def choose(self, moment: Moment) -> Plan:
        return Plan(next(self._ks), least=self._least)

    def learn(self, kind: str, drafted: int, accepted: int) -> None:
        """Nothing."""


class Fickle(Cycle):
    """Who drafts depends on what became of the drafts before, never on a sample."""

    def __init__(self, ks: Sequence[int], kept: int) -> None:
        super().__init__(ks)
        self.kept = kept

    def choose(self, moment: Moment) -> Plan:
        able = [offer.source for offer in moment.offers]
        plan = super().choose(moment)
        return Plan(plan.k, source=able[self.kept % len(able)] if able else "")

    def learn(self, kind: str, drafted: int, accepted: int) -> None:
        self.kept += 1 + accepted


def exact(table: Table, sampling: Sampling, prompt: tuple[int, ...] = PROMPT) -> Cells:
    """Mass of every reply of FIRST and up to three tokens; shorter ones met the end token."""
    cells: Cells = {}

    def walk(said: tuple[int, ...], mass: float) -> None:
        if len(said) == 4:
            cells[said] = mass
            return
        tokens = (*prompt, *said)
        for token, p in enumerate(law(table(tokens), sampling, tokens, len(prompt)).dense()):
            if token == END:
                cells[said] = mass * float(p)
            elif p > 0:
                walk((*said, token), mass * float(p))

    walk((FIRST,), 1.0)
    return cells


def sampled(
    drafter: str,
    ks: Sequence[int],
    sampling: Sampling,
    rule: Rule = "reject",
    mutant: bool = False,
    least: tuple[float, ...] = (),
) -> tuple[Counter[tuple[int, ...]], Counter[str]]:
    """The first tokens of SAMPLES replies, and how often a draft was kept in full, in part, not."""
    prompt = REPEATS if drafter in ("cascade", "auto") else PROMPT
    p, q = tables(prompt)
    said: Counter[tuple[int, ...]] = Counter()
    kinds: Counter[str] = Counter()
    for seed in range(SAMPLES):
        made: Drafter = ModelDrafter(TableScorer(q, V), "q", V, frozenset({END}))
        if drafter == "argmax":
            made = Proposing(lambda tokens, k: _argmax(q, tokens, k))
        if drafter == "translated":
            made, _ = letters_drafter(q, V, END, unknown=frozenset({2}))
        if drafter == "cascade":
            made = CascadeDrafter(made, NgramDrafter())
        if drafter == "auto":
            other = ModelDrafter(TableScorer(random_table(V, 5), V), "r", V, frozenset({END}))
            made = AutoDrafter("auto", (made, other), NgramDrafter())
        if mutant:
            made = Withdrawing(made)
        noise = Noise.of(seed, prompt)
        task = Task(prompt, sampling, rule, noise, frozenset({END}), 4096)
        text = TextStream(lambda ids: "".join(chr(65 + i) for i in ids))
        length = Fickle(ks, seed) if drafter == "auto" else Cycle(ks, least)
        turn = Turn(task, TableScorer(p, V), made, length, text)
        for event in turn.run(NeverCancel()):
            if isinstance(event, Round) and event.drafted:
                whole = event.accepted == event.drafted
                kinds["full" if whole else "partial" if event.accepted else "zero"] += 1
                kinds[event.source] += 1
                kinds["shortened"] += event.drafted < event.k
            if len(turn.reply) >= 4:
                break
        said[turn.reply[:4]] += 1
    return said, kinds


def _argmax(table: Table, tokens: Sequence[int], k: int) -> list[int]:
    """A greedy draft while the target samples (A05)."""
    known = list(tokens)
    for _ in range(k):
        known.append(int(table(tuple(known)).argmax()))
    return known[len(tokens) :]


def surprise(said: Counter[tuple[int, ...]], cells: Cells) -> float:
    """Chi-square over the cells, those under 5 pooled, standardised: about N(0, 1) if exact."""
    assert set(said) <= {cell for cell, mass in cells.items() if mass > 0}
    n = said.total()
    rows = [(said[cell], n * mass) for cell, mass in cells.items()]
    large = [row for row in rows if row[1] >= 5]
    pool = sum(s for s, e in rows if e < 5), sum(e for s, e in rows if e < 5)
    if pool[1] > 0:
        large.append(pool)
    statistic = sum((seen - expected) ** 2 / expected for seen, expected in large)
    freedom = len(large) - 1
    return (statistic - freedom) / math.sqrt(2 * freedom)


def test_the_exact_law_is_one() -> None:
    for sampling in (PLAIN, SHAPED):
        cells = exact(tables()[0], sampling)
        assert sum(cells.values()) == pytest.approx(1.0, abs=1e-5)
        assert len(cells) > 20


@pytest.mark.parametrize("ks", [(1,), (2,), (3,), (4,), (2, 4, 0, 1, 3)], ids=str)
def test_reject_has_the_law_of_the_target(ks: tuple[int, ...]) -> None:
    said, kinds = sampled("model", ks, SHAPED)
    assert abs(surprise(said, exact(tables()[0], SHAPED))) < 4
    assert kinds["full"] >= 20
    assert kinds["zero"] >= 20
    assert max(ks) == 1 or kinds["partial"] >= 20


def test_reject_without_filters_and_with_a_greedy_draft() -> None:
    said, _ = sampled("argmax", (3,), PLAIN)
    assert abs(surprise(said, exact(tables()[0], PLAIN))) < 4


def test_a_draft_that_ends_where_it_is_unsure_has_the_law_of_the_target() -> None:
    """Its length depends on the tokens drawn, but none that was drawn is withdrawn."""
    said, kinds = sampled("model", (4,), SHAPED, least=(0.15, 0.1, 0.05))
    assert abs(surprise(said, exact(tables()[0], SHAPED))) < 4
    assert min(kinds["shortened"], kinds["zero"], kinds["partial"], kinds["full"]) >= 50


@pytest.mark.parametrize("rule", ["reject", "match"])
def test_a_cascade_has_the_law_of_the_target(rule: Rule) -> None:
    """Who drafts depends on what was said: copies and the model both do, often."""
    said, kinds = sampled("cascade", (2, 4, 0, 1, 3), SHAPED, rule)
    assert abs(surprise(said, exact(tables(REPEATS)[0], SHAPED, REPEATS))) < 4
    assert min(kinds["ngram"], kinds["q"], kinds["zero"], kinds["partial"]) >= 100


def test_several_drafts_that_take_turns_by_outcomes_have_the_law_of_the_target() -> None:
    said, kinds = sampled("auto", (2, 4, 0, 1, 3), SHAPED)
    assert abs(surprise(said, exact(tables(REPEATS)[0], SHAPED, REPEATS))) < 4
    assert min(kinds["ngram"], kinds["q"], kinds["r"], kinds["zero"], kinds["partial"]) >= 80


@pytest.mark.parametrize("rule", ["reject", "match"])
def test_a_draft_of_other_tokens_has_the_law_of_the_target(rule: Rule) -> None:
    """Its ids are others, and one of the target's it cannot say."""
    said, kinds = sampled("translated", (2, 4, 0, 1, 3), SHAPED, rule)
    assert abs(surprise(said, exact(tables()[0], SHAPED))) < 4
    assert min(kinds["full"], kinds["zero"], kinds["partial"]) >= 20


def test_match_has_the_law_of_the_target_too() -> None:
    said, _ = sampled("model", (4, 1), SHAPED, rule="match")
    assert abs(surprise(said, exact(tables()[0], SHAPED))) < 4


@pytest.mark.parametrize("ks", [(1,), (4,), (2, 4, 0, 1, 3)], ids=str)
def test_a_drafter_that_withdraws_low_q_tokens_is_caught(ks: tuple[int, ...]) -> None:
    """The same samples: the law tests above have the power they need."""
    said, _ = sampled("model", ks, SHAPED, mutant=True)
    assert surprise(said, exact(tables()[0], SHAPED)) > 6
