"""A draft of other tokens on fakes: the mapped law, its noise, its ends, and its cache."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

import pytest
import torch

from specdec.contract import NeverCancel
from specdec.detokenize import TextStream
from specdec.drafters.base import Context
from specdec.drafters.none import NoDrafter
from specdec.drafters.plan import Moment, Plan
from specdec.drafters.shared_tokens import SharedTokens
from specdec.noise import Noise
from specdec.request import Rule, Sampling
from specdec.sampling import draw, law
from specdec.turn import Task, Turn
from tests.fakes import Table, TableScorer, disagreeing_pair, random_table, scripted_table
from tests.specdec.tongue_kit import letters_drafter

V, END = 12, 0
UNKNOWN = frozenset({2, 7, 11})
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]
WARM = Sampling(temperature=0.9)

pytestmark = pytest.mark.usefixtures("one_thread")


def context(
    tokens: Sequence[int], rule: Rule = "match", sampling: Sampling = WARM, seed: int = 1
) -> Context:
    return Context(tokens, len(PROMPT), sampling, rule, Noise.of(seed, PROMPT))


def mapped(table: Table, tokens: Sequence[int]) -> torch.Tensor:
    """What the draft would say, among what both can say: mass by the target's ids, [V]."""
    mass = torch.softmax(table(tuple(tokens)).double() / WARM.temperature, 0)
    mass[list(UNKNOWN)] = 0
    return mass / mass.sum()


def test_the_law_is_the_drafts_own_among_the_tokens_of_both() -> None:
    table = random_table(V, 3)
    other, _ = letters_drafter(table, V, END, UNKNOWN)
    draft = other.propose(context(PROMPT, "reject"), 6)
    assert len(draft.tokens) > 2
    for j, (x, q) in enumerate(zip(draft.tokens, draft.laws, strict=True)):
        assert q is not None
        seen = [*PROMPT, *draft.tokens[:j]]
        torch.testing.assert_close(q.dense().double(), mapped(table, seen), atol=1e-6, rtol=0)
        assert x == draw(q, Noise.of(1, PROMPT), j, "draft")
        assert q.size == V


def test_under_match_all_that_the_draft_says_is_spelled_with_the_targets_noise() -> None:
    """Tokens of no pair are drafted too; no law is told of them."""
    table, said = random_table(V, 3), set[int]()
    for seed in range(20):
        other, _ = letters_drafter(table, V, END, UNKNOWN)
        draft = other.propose(context(PROMPT, seed=seed), 6)
        assert draft.laws == (None,) * len(draft.tokens)
        for j, x in enumerate(draft.tokens):
            seen = [*PROMPT, *draft.tokens[:j]]
            row = torch.full((V + len(UNKNOWN),), -torch.inf)
            for t, score in enumerate(table(tuple(seen)).tolist()):
                row[V + sorted(UNKNOWN).index(t) if t in UNKNOWN else t] = score
            y = draw(law(row, WARM, seen, len(PROMPT)), Noise.of(seed, PROMPT), j, "target")
            assert x == (y if y < V else sorted(UNKNOWN)[y - V])
        said |= set(draft.tokens)
    assert said >= UNKNOWN


def test_the_drafted_token_follows_the_mapped_law() -> None:
    """What transformers' own version fails: its laws stand at other ids than its tokens."""
    table, n = random_table(V, 5, spread=0.8), 1500
    other, _ = letters_drafter(table, V, END, UNKNOWN)
    seen = Counter[int]()
    for seed in range(n):
        draft = other.propose(context(PROMPT, "reject", seed=seed), 1)
        seen[draft.tokens[0]] += 1
        other.settle(PROMPT, 0)
    p = mapped(table, PROMPT).tolist()
    assert not UNKNOWN & set(seen)
    cells = [(seen[i] - n * mass) ** 2 / (n * mass) for i, mass in enumerate(p) if mass]
    assert len(cells) == V - len(UNKNOWN)
    assert sum(cells) < 26.1  # one in a thousand, 8 degrees of freedom
    shifted = [*p[1:], p[0]]  # the same test sees a map that is one id off
    wrong = [(seen[i] - n * m) ** 2 / (n * m) for i, m in enumerate(shifted) if m]
    assert sum(wrong) > 500


def test_a_row_holds_each_logit_at_its_own_place() -> None:
    shared = SharedTokens([(4, 0), (1, 3), (2, 2)], 5, [3])
    logits = torch.tensor([9.0, 1.0, 2.0, 8.0, 4.0])
    assert shared.row(logits).tolist() == [4.0, -torch.inf, 2.0, 1.0, -torch.inf]
    assert shared.whole_row(logits).tolist() == [4.0, -torch.inf, 2.0, 1.0, -torch.inf, 8.0]
    assert [shared.own(t) for t in (0, 3, 2, 5)] == [4, 1, 2, 3]


def test_filters_come_after_the_restriction() -> None:
    """Of three that may stay, none is wasted on a token that the target does not have."""
    other, _ = letters_drafter(random_table(V, 4), V, END, UNKNOWN)
    few = Sampling(temperature=1, top_k=3)
    (q,) = other.propose(context(PROMPT, "reject", few), 1).laws
    assert q is not None
    assert len(q.ids) == 3
    assert not UNKNOWN & set(q.ids.tolist())


def test_nothing_is_drafted_after_an_end() -> None:
    other, fake = letters_drafter(scripted_table([1, 3, END, 4], len(PROMPT), V), V, END)
    assert other.propose(context(PROMPT, "reject"), 6).tokens == (1, 3, END)
    assert len(fake.calls) == 3


def test_one_call_a_token_and_the_cache_follows_what_was_kept() -> None:
    table = random_table(V, 6, memory=30)
    other, fake = letters_drafter(table, V, END, UNKNOWN)
    other.begin(PROMPT)
    tokens, k = list(PROMPT), 4
    for kept, more in ((4, 2), (0, 7), (2, 11), (1, 3)):
        while not other.catch_up(tokens):
            pass
        fake.calls.clear()
        draft = other.propose(context(tokens), k)
        assert len(fake.calls) == len(draft.tokens)
        fresh, _ = letters_drafter(table, V, END, UNKNOWN)
        assert fresh.propose(context(tokens), k).tokens == draft.tokens
        tokens += [*draft.tokens[:kept], more]
        other.settle(tokens, min(kept, len(draft.tokens)))
        assert fake.ids == [V - t for t in tokens[: fake.length]]
        assert fake.length < len(tokens)


@pytest.mark.parametrize("pause", [1, 8, 9, 40])
def test_it_catches_up_after_a_pause_and_an_edit(pause: int) -> None:
    table = random_table(V, 7, memory=30)
    other, fake = letters_drafter(table, V, END, UNKNOWN)
    other.propose(context(PROMPT), 3)
    tokens = [*PROMPT, *(i * i % 11 + 1 for i in range(pause))]
    for true in (tokens, tokens[:4], [*tokens[:6], 5, 5, 5], [1], tokens):
        (offer,) = other.offers(true)
        assert offer.behind <= len(true)
        fresh, _ = letters_drafter(table, V, END, UNKNOWN)
        assert other.propose(context(true), 3).tokens == fresh.propose(context(true), 3).tokens
    other.begin(())
    assert fake.length == 0


def test_a_chat_longer_than_it_can_read() -> None:
    other, fake = letters_drafter(scripted_table([1] * 99, 0, V), V, END, capacity=16)
    assert len(other.propose(context(PROMPT), 9).tokens) == 7
    assert fake.length == 16
    tokens = [*PROMPT, *[1] * 7]
    assert "16 tokens other can read" in other.propose(context(tokens), 9).reason
    assert "16 tokens" in other.offers(tokens)[0].blocked


def test_nobody_offers_while_a_character_cannot_be_read() -> None:
    other, fake = letters_drafter(random_table(180, 1), 180, END)
    first, second = 0xC3 - 64, 0xA9 - 64  # the two bytes of one letter
    tokens = [*PROMPT, first]
    assert other.offers(tokens) == ()
    assert other.catch_up(tokens)
    assert other.propose(context(tokens), 3).tokens == ()
    assert fake.calls == fake.prefills == []
    assert other.offers([*tokens, second])
    assert len(other.propose(context([*tokens, second]), 3).tokens) == 3
    other.settle(tokens, 0)  # an edit back into the letter
    assert other.propose(context(PROMPT), 3).tokens


class Cycle:
    """k changes every round; 0 is a pause."""

    def __init__(self, ks: Sequence[int]) -> None:
        self._ks = itertools.cycle(ks)

    def choose(self, moment: Moment) -> Plan:
        return Plan(next(self._ks))

    def learn(self, kind: str, drafted: int, accepted: int) -> None:
        """Nothing."""


@pytest.mark.parametrize("temperature", [0, 0.9])
def test_words_are_the_plain_ones_whatever_is_drafted(temperature: float) -> None:
    p, q = disagreeing_pair(V, seed=3, agree=0.7)
    kept = 0
    for seed in range(12):
        sampling = Sampling(temperature=temperature, max_tokens=40)
        task = Task(tuple(PROMPT), sampling, "match", Noise.of(seed, PROMPT), frozenset({END}), 999)
        said = []
        other, _ = letters_drafter(q, V, END, UNKNOWN)
        for drafter, ks in ((NoDrafter(), (0,)), (other, (3, 0, 0, 7, 1, 2)), (other, (5,))):
            text = TextStream(lambda ids: "".join(chr(65 + i) for i in ids))
            turn = Turn(task, TableScorer(p, V), drafter, Cycle(ks), text)
            *_, last = turn.run(NeverCancel())
            said.append(turn.reply)
            kept += last.metrics.accepted  # type: ignore[union-attr]
        assert said[0] == said[1] == said[2]
    assert kept > 40
