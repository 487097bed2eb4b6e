"""The model draft: one call a token, catching up after any pause, always a prefix of the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from specdec.drafters.base import Context
from specdec.drafters.model import ModelDrafter
from specdec.noise import Noise
from specdec.request import MAX_K, Rule, Sampling
from specdec.sampling import draw, law
from tests.fakes import Table, TableScorer, random_table, scripted_table

V = 12
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]
WARM = Sampling(temperature=0.9)


def context(tokens: Sequence[int], rule: Rule = "match", sampling: Sampling = WARM) -> Context:
    return Context(tokens, len(PROMPT), sampling, rule, Noise.of(1, PROMPT))


def drafter(table: Table, **scorer: int) -> tuple[ModelDrafter, TableScorer]:
    fake = TableScorer(table, V, **scorer)
    return ModelDrafter(fake, "small", V, frozenset({0})), fake


def truth(table: Table, tokens: Sequence[int], k: int, rule: Rule = "match") -> list[int]:
    """What a draft that never was interrupted draws."""
    known, noise = list(tokens), Noise.of(1, PROMPT)
    for _ in range(k):
        q = law(table(tuple(known)), WARM, known, len(PROMPT))
        stream = "target" if rule == "match" else "draft"
        known.append(draw(q, noise, len(known) - len(PROMPT), stream))
        if known[-1] == 0:
            break
    return known[len(tokens) :]


def is_prefix(fake: TableScorer, tokens: Sequence[int]) -> bool:
    return fake.ids == list(tokens[: fake.length]) and fake.length < max(1, len(tokens))


@pytest.mark.parametrize("rule", ["match", "reject"])
def test_draws_with_the_right_noise_and_reports_its_laws(rule: Rule) -> None:
    table = random_table(V, 3)
    small, _ = drafter(table)
    draft = small.propose(context(PROMPT, rule), 6)
    assert list(draft.tokens) == truth(table, PROMPT, 6, rule)
    for j, (x, q) in enumerate(zip(draft.tokens, draft.laws, strict=True)):
        seen = [*PROMPT, *draft.tokens[:j]]
        expected = law(table(tuple(seen)), WARM, seen, len(PROMPT))
        assert q is not None
        assert q.dense().tolist() == expected.dense().tolist()
        assert q.prob(x) > 0


def test_match_and_reject_draw_from_different_noise() -> None:
    small, _ = drafter(random_table(V, 3, spread=0.1))
    matched = small.propose(context(PROMPT, "match"), 8).tokens
    rejected = small.propose(context(PROMPT, "reject"), 8).tokens
    assert matched != rejected


def unsure(tokens: tuple[int, ...]) -> Tensor:
    """Sure of 7 at even places, half sure of 3 at odd ones."""
    logits = torch.full((V,), -9.0)
    if len(tokens) % 2:
        logits[3], logits[4] = 0.3, 0.0
    else:
        logits[7] = 0.0
    return logits


def test_a_draft_ends_after_the_token_it_is_unsure_of() -> None:
    small, _ = drafter(unsure)
    greedy = replace(context(PROMPT), sampling=Sampling(temperature=0))
    assert small.propose(greedy, 5).tokens == (7, 3, 7, 3, 7)
    small.settle(PROMPT, 0)
    assert small.propose(replace(greedy, least=(0.6,) * 4), 5).tokens == (7, 3)
    small.settle(PROMPT, 0)
    assert small.propose(replace(greedy, least=(0.6,)), 1).tokens == (7,)


def test_being_right_though_unsure_is_learned() -> None:
    small, _ = drafter(unsure)
    ask = replace(context(PROMPT), sampling=Sampling(temperature=0), least=(0.5,) * 4)
    drafted = []
    for _ in range(30):
        draft = small.propose(ask, 5).tokens
        drafted.append(len(draft))
        small.settle([*PROMPT, *draft, 1], len(draft))
        small.settle(PROMPT, 0)  # as if that reply had never been
    assert drafted[0] == 2
    assert drafted[-1] == 5
    for _ in range(30):
        small.propose(ask, 5)
        small.settle(PROMPT, 1)  # the token it is unsure of is never right
    assert len(small.propose(ask, 5).tokens) == 2


def test_one_call_a_token_the_catch_up_with_the_first() -> None:
    small, fake = drafter(scripted_table([1] * 50, 0, V))
    short = PROMPT[:5]
    small.begin(short)
    assert small.catch_up(short)
    small.propose(context(short), 5)
    assert fake.calls == [len(short), 1, 1, 1, 1]
    fake.calls.clear()
    tokens = [*short, 1, 1, 1, 1, 1, 2]  # all kept, and a bonus token it has not seen
    small.settle(tokens, 5)
    small.propose(context(tokens), 3)
    assert fake.calls == [2, 1, 1]
    assert fake.prefills == []


def test_rejected_tokens_leave_the_cache() -> None:
    small, fake = drafter(random_table(V, 4))
    small.propose(context(PROMPT), 6)
    tokens = [*PROMPT, 7]
    small.settle(tokens, 0)
    assert is_prefix(fake, tokens)
    assert fake.ids == PROMPT


@pytest.mark.parametrize("pause", [1, 2, 5, 7, 8, 9, 40, 100])
@pytest.mark.parametrize("scorer", [{}, {"width": 3}, {"width": 1}, {"chunk": 64}])
def test_catches_up_after_any_pause(pause: int, scorer: dict[str, int]) -> None:
    """A15: rounds without a draft still feed the cache before the next one."""
    table = random_table(V, 5, memory=6)
    small, fake = drafter(table, **scorer)
    small.propose(context(PROMPT), 4)
    tokens = [*PROMPT, *[(7 * i) % 11 + 1 for i in range(pause)]]
    small.settle(tokens[: len(PROMPT) + 1], 0)
    assert list(small.propose(context(tokens), 5).tokens) == truth(table, tokens, 5)
    assert max(fake.calls) <= MAX_K + 1


def test_a_pause_of_any_length_is_read_in_chunks() -> None:
    small, fake = drafter(random_table(V, 5), chunk=8)
    tokens = [i % 11 + 1 for i in range(100)]
    steps = 0
    while not small.catch_up(tokens):
        steps += 1
        assert len(fake.prefills) == steps
    assert max(fake.prefills) <= 8
    assert fake.calls == []
    assert len(tokens) - fake.length <= MAX_K + 1


def test_edit_regenerate_and_a_cut_block_rewind_to_the_common_prefix() -> None:
    table = random_table(V, 6, memory=4)
    small, fake = drafter(table)
    small.propose(context(PROMPT), 6)
    for tokens in ([*PROMPT[:4], 8, 8, 8], PROMPT, PROMPT[:3], [1], [*PROMPT, 1, 2, 3], [2, 2]):
        small.begin(tokens)
        assert is_prefix(fake, tokens)
        known = Context(tokens, 0, WARM, "match", Noise.of(1, PROMPT))
        ours = small.propose(known, 3)
        assert fake.ids[: len(tokens)] == list(tokens)
        alone = ModelDrafter(TableScorer(table, V), "small", V, frozenset({0})).propose(known, 3)
        assert ours.tokens == alone.tokens
    small.begin(())
    assert fake.length == 0


def test_a_chat_longer_than_the_draft_can_read() -> None:
    """A37: no crash, no suffix guess: nothing is drafted, and the reason is there to show."""
    small, fake = drafter(scripted_table([1] * 99, 0, V), capacity=16)
    assert len(small.propose(context(PROMPT), 9).tokens) == 7  # 10 cached + 6 drafted ones
    assert fake.length == 16
    tokens = [*PROMPT, *[1] * 6]
    assert len(small.propose(context(tokens), 9).tokens) == 1
    tokens.append(1)
    assert small.catch_up(tokens)
    draft = small.propose(context(tokens), 9)
    assert draft.tokens == ()
    assert "16 tokens small can read" in draft.reason
    assert small.propose(context(PROMPT), 2).tokens  # a new chat fits again


def test_nothing_is_drafted_after_an_end_id() -> None:
    small, fake = drafter(scripted_table([1, 2, 0, 4], len(PROMPT), V))
    assert small.propose(context(PROMPT, "reject"), 6).tokens == (1, 2, 0)
    assert len(fake.calls) == 3


def test_ids_the_target_does_not_know_are_never_proposed() -> None:
    """A19, A21: the draft's rows are more than the target's."""
    fake = TableScorer(scripted_table([11] * 99, 0, V), V)
    small = ModelDrafter(fake, "small", 8, frozenset())
    assert max(small.propose(context(PROMPT), 9).tokens) < 8


def test_penalties_see_the_drafted_tokens() -> None:
    """A08, on the draft's side: greedy with a presence penalty must not repeat itself."""
    sampling = Sampling(temperature=0, presence_penalty=2.0)
    small, _ = drafter(lambda tokens: random_table(V, 8, memory=0)(tokens))
    tokens = small.propose(context(PROMPT, "match", sampling), 4).tokens
    assert len(set(tokens)) == len(tokens)


def test_a_call_that_failed_leaves_the_cache_usable() -> None:
    table = random_table(V, 9, memory=5)
    failing = [True]

    def sometimes(tokens: tuple[int, ...]):  # type: ignore[no-untyped-def]
        if failing[0] and len(tokens) == len(PROMPT) + 2:
            raise RuntimeError("out of memory")
        return table(tokens)

    small, fake = drafter(sometimes)
    with pytest.raises(RuntimeError):
        small.propose(context(PROMPT), 6)
    failing[0] = False
    small.settle(PROMPT, 0)
    assert is_prefix(fake, PROMPT)
    assert list(small.propose(context(PROMPT), 6).tokens) == truth(table, PROMPT, 6)


def test_one_that_is_far_behind_begins_anew_near_the_end() -> None:
    """What it must read is bounded, and offered as such; it drafts as one that knows no more."""
    table = random_table(V, 4, memory=30)
    fake = TableScorer(table, V)
    small = ModelDrafter(fake, "small", V, frozenset({0}), reach=12)
    tokens = [*PROMPT, *(i * i % 11 + 1 for i in range(90))]
    assert [o.behind for o in small.offers(tokens)] == [12]
    ours = small.propose(context(tokens), 3)
    assert fake.ids[:12] == tokens[-12:]
    for j, x in enumerate(ours.tokens):
        seen = [*tokens, *ours.tokens[:j]]
        q = law(table(tuple(seen[-12 - j :])), WARM, seen, len(PROMPT))
        assert x == draw(q, Noise.of(1, PROMPT), len(seen) - len(PROMPT), "target")
    small.settle([*tokens, ours.tokens[0], 7], 1)
    assert fake.ids == [*tokens[-12:], ours.tokens[0]]
    longer = [*tokens, ours.tokens[0], 7, *range(1, 9)]
    assert [o.behind for o in small.offers(longer)] == [9]
    small.propose(context(longer), 2)
    assert fake.ids[:22] == longer[-22:]
    for other in (tokens[:50], PROMPT, [1], [*PROMPT, 1, 2, 3]):
        small.begin(other)
        assert small.propose(context(other), 2).tokens
    small.begin(())
    assert fake.length == 0
