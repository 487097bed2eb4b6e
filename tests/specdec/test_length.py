"""Draft length from costs and outcomes: pays, does not pay, pays again."""

from __future__ import annotations

import random

import pytest

from specdec.drafters.length import FixedLength, LengthPolicy

FLAT = {1: 1.0, 8: 1.0}


def rounds(policy: LengthPolicy, rate: float, n: int, seed: int = 0) -> list[int]:
    """n rounds in which each draft token is kept with probability `rate`; the k chosen."""
    rng = random.Random(seed)
    chosen = []
    for _ in range(n):
        k, _why = policy.choose()
        chosen.append(k)
        accepted = 0
        while accepted < k and rng.random() < rate:
            accepted += 1
        if k:
            policy.learn(k, accepted)
    return chosen


def best_k(rate: float, draft: float, k_max: int) -> int:
    """The optimum with flat scoring cost 1 and a known acceptance."""
    speed = [sum(rate**i for i in range(k + 1)) / (1 + k * draft) for k in range(k_max + 1)]
    return speed.index(max(speed))


@pytest.mark.parametrize("rate", [0.4, 0.6, 0.8, 0.95])
def test_settles_near_the_optimum(rate: float) -> None:
    chosen = rounds(LengthPolicy(FLAT, 0.1, 7), rate, 400)[200:]
    mean = sum(chosen) / len(chosen)
    assert abs(mean - best_k(rate, 0.1, 7)) <= 1.2


def test_a_free_draft_is_used_in_full() -> None:
    assert set(rounds(LengthPolicy(FLAT, 0.0, 7), 0.5, 50)) == {7}


def test_dear_rows_mean_short_drafts() -> None:
    dear = {w: float(w) for w in range(1, 9)}
    assert max(rounds(LengthPolicy(dear, 0.05, 7), 0.7, 200)[100:]) <= 1


def test_off_when_it_does_not_pay_and_says_so_once() -> None:
    policy = LengthPolicy(FLAT, 0.5, 7)
    chosen = rounds(policy, 0.05, 300)
    assert chosen[:1] != [0]  # it was tried
    assert chosen[-100:].count(0) >= 80
    reasons = {policy.choose()[1] for _ in range(10)} - {""}
    assert len(reasons) == 1
    assert "does not pay" in reasons.pop()


def test_trying_again_costs_three_percent_at_most() -> None:
    policy = LengthPolicy(FLAT, 0.5, 7)
    chosen = rounds(policy, 0.0, 1000)[200:]
    extra = sum(0.5 * k for k in chosen)
    assert 0 < extra <= 0.031 * len(chosen)


def test_comes_back_when_the_text_changes() -> None:
    policy = LengthPolicy(FLAT, 0.2, 7)
    assert rounds(policy, 0.0, 200)[-20:].count(0) >= 15
    assert min(rounds(policy, 0.95, 400)[-50:]) >= 4


def test_speculation_off_is_no_news() -> None:
    assert LengthPolicy(FLAT, 0.1, 0).choose() == (0, "")
    assert FixedLength(0).choose() == (0, "")


def test_fixed_length_never_learns() -> None:
    fixed = FixedLength(5)
    fixed.learn(5, 0)
    assert fixed.choose() == (5, "")


def test_acceptance_is_per_depth_and_conditional() -> None:
    policy = LengthPolicy(FLAT, 0.1, 4)
    for _ in range(300):
        policy.learn(4, 2)  # the first two always kept, the third never, the fourth never reached
    first, second, third, fourth = policy.acceptance()
    assert first > 0.97
    assert second > 0.97
    assert third < 0.06
    assert fourth == pytest.approx(third)  # nothing seen: as the depth before


def test_short_drafts_teach_only_what_they_show() -> None:
    """A drafter may propose fewer than k; full acceptance of two says nothing against a third."""
    policy = LengthPolicy(FLAT, 0.1, 4)
    for _ in range(100):
        policy.learn(2, 2)
    assert min(policy.acceptance()) > 0.9


def test_costs_between_and_beyond_measured_widths() -> None:
    policy = LengthPolicy({1: 1.0, 4: 4.0, 8: 4.0}, 0.0, 9)
    assert policy._steps == pytest.approx([1, 2, 3, 4, 4, 4, 4, 4, 4, 4])


def test_choice_depends_on_past_outcomes_only() -> None:
    one, other = LengthPolicy(FLAT, 0.1, 7), LengthPolicy(FLAT, 0.1, 7)
    for drafted, accepted in ((7, 2), (5, 5), (1, 0)):
        one.learn(drafted, accepted)
        other.learn(drafted, accepted)
        assert one.choose() == other.choose()


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5, 0.8])
@pytest.mark.parametrize("draft", [0.05, 0.25, 1.0])
@pytest.mark.parametrize("flat", [True, False])
def test_drafting_never_costs_more_than_its_credit(rate: float, draft: float, flat: bool) -> None:
    """By the model's own costs: plain time and 3 %, and the few steps it may lose at first."""
    costs = FLAT if flat else {1: 1.0, 2: 2.2, 8: 3.0}
    policy = LengthPolicy(costs, draft, 7)
    rng, spent, tokens = random.Random(3), 0.0, 0
    for _ in range(400):
        k, _why = policy.choose()
        accepted = 0
        while accepted < k and rng.random() < rate:
            accepted += 1
        if k:
            policy.learn(k, accepted)
        spent += policy._steps[k]
        tokens += accepted + 1
        last = max(policy._steps)  # the round that empties the account may overdraw it once
        assert spent <= 1.03 * tokens + 4 + last
