"""Draft length from costs and outcomes: pays, does not pay, pays again; by source, by chat."""

from __future__ import annotations

import random

import pytest

from specdec.drafters.acceptance import Acceptance
from specdec.drafters.account import CREDIT, SHARE
from specdec.drafters.length import DraftCost, FixedLength, LengthPolicy, Lengths
from specdec.drafters.plan import Moment, Offer, Plan, taken

FLAT = {1: 1.0, 8: 1.0}
DEAR = {w: float(w) for w in range(1, 9)}
MODEL = Offer("model")
ANY = Moment((MODEL,), 7, 100)


def pair(costs: dict[int, float], draft: float, k_max: int = 7, read: float = 0.0) -> Lengths:
    return Lengths(costs, {"model": DraftCost(draft, read)}, k_max)


def policy(costs: dict[int, float], draft: float) -> LengthPolicy:
    return pair(costs, draft).of("chat")


def rounds(policy: LengthPolicy, rate: float, n: int, seed: int = 0) -> list[int]:
    """n rounds in which each draft token is kept with probability `rate`; the k chosen."""
    rng = random.Random(seed)
    chosen = []
    for _ in range(n):
        k = policy.choose(ANY).k
        chosen.append(k)
        accepted = 0
        while accepted < k and rng.random() < rate:
            accepted += 1
        if k:
            policy.learn("model", k, accepted)
    return chosen


def best_k(rate: float, costs: list[float]) -> int:
    """The optimum for a known acceptance and the costs of k = 0, 1, ..."""
    speed = [sum(rate**i for i in range(k + 1)) / cost for k, cost in enumerate(costs)]
    return speed.index(max(speed))


@pytest.mark.parametrize("rate", [0.4, 0.6, 0.8, 0.95])
def test_settles_near_the_optimum(rate: float) -> None:
    chosen = rounds(policy(FLAT, 0.1), rate, 400)[200:]
    mean = sum(chosen) / len(chosen)
    assert abs(mean - best_k(rate, [1 + 0.1 * k for k in range(8)])) <= 1.2


@pytest.mark.parametrize("draft", [0.05, 0.12, 0.3])
@pytest.mark.parametrize("costs", [FLAT, {1: 1.0, 2: 1.4, 8: 2.2}, {1: 1.0, 4: 1.0, 8: 3.0}])
def test_a_good_draft_is_at_its_best_length_within_twenty_rounds(
    costs: dict[int, float], draft: float
) -> None:
    known = pair(costs, draft)
    steps = [k * draft + known.score[k] for k in range(8)]
    chosen = rounds(known.of("chat"), 1.0, 60)[20:]
    assert set(chosen) == {best_k(1.0, steps)}


def test_a_free_draft_is_used_in_full() -> None:
    assert set(rounds(policy(FLAT, 0.0), 0.5, 50)) == {7}


def test_dear_rows_are_never_tried() -> None:
    assert set(rounds(policy(DEAR, 0.05), 0.9, 100)[:50]) == {0}


def test_off_when_it_does_not_pay_and_says_why() -> None:
    made = policy(FLAT, 0.5)
    chosen = rounds(made, 0.05, 300)
    assert chosen[:1] != [0]  # it was tried
    assert chosen[-100:].count(0) >= 80
    plan = made.choose(ANY)
    assert plan.off
    assert plan.reason.startswith("Speculation is off")


def test_one_token_more_must_be_worth_its_time_at_the_speed_so_far() -> None:
    made = policy({1: 1.0, 5: 1.0, 8: 1.3}, 0.2)
    costs = [0.2, 0.2, 0.2, 0.3, 0.3, 0.3]  # of the second to the seventh token and its row
    first = made.choose(ANY)
    assert first.least == pytest.approx(costs[: first.k - 1])
    for _ in range(200):
        made.learn("model", 7, 7)
    assert made.choose(ANY).least == pytest.approx([c * 8 / 2.7 for c in costs], rel=0.1)
    assert policy(FLAT, 0.0).choose(ANY).least == ()  # a free draft has no reason to stop


def test_every_plan_has_a_reason_with_its_odds() -> None:
    plan = policy(FLAT, 0.1).choose(ANY)
    assert (plan.k, plan.source, plan.off) == (7, "model", False)
    assert plan.reason == "7 from model: 5.70 tokens a round for 1.70 times the time of one"


def test_trying_again_costs_its_share_at_most_and_never_ends() -> None:
    chosen = rounds(policy(FLAT, 0.5), 0.0, 1000)[200:]
    extra = sum(0.5 * k for k in chosen)
    assert 0 < extra <= SHARE * len(chosen) + 0.5


def test_comes_back_when_the_text_changes() -> None:
    made = policy(FLAT, 0.2)
    assert rounds(made, 0.0, 200)[-20:].count(0) >= 15
    assert min(rounds(made, 0.95, 400)[-50:]) >= 4


def test_no_room_and_no_offer_are_no_news() -> None:
    made = policy(FLAT, 0.1)
    assert made.choose(Moment((MODEL,), 0, 9)) == Plan(0, "no room for a draft")
    assert made.choose(Moment((), 7, 9)) == Plan(0, "no earlier text to copy")
    blocked = Offer("model", blocked="it is full")
    assert made.choose(Moment((blocked,), 7, 9)) == Plan(0, "it is full")
    assert made.choose(Moment((MODEL,), 3, 99)).k == 3


def test_fixed_length_never_learns() -> None:
    fixed = FixedLength(5)
    fixed.learn("model", 5, 0)
    assert fixed.choose(ANY) == Plan(5, "asked for")
    assert FixedLength(0).choose(ANY).k == 0


def test_a_plan_takes_the_offer_it_names_or_the_first_that_can() -> None:
    full, copy = Offer("a", blocked="full"), Offer("ngram")
    offers = (full, copy, MODEL)
    assert taken(Plan(3), offers) == copy
    assert taken(Plan(3, source="model"), offers) == MODEL
    assert taken(Plan(3, source="a"), offers) is None
    assert taken(Plan(0), offers) is None
    assert taken(Plan(3), (full,)) is None


def test_the_cheaper_of_two_equal_sources_is_taken_and_the_better_of_two_free_ones() -> None:
    known = Lengths(FLAT, {"model": DraftCost(0.2)}, 7)
    made, both = known.of("chat"), Moment((Offer("ngram"), MODEL), 7, 100)
    assert made.choose(both).source == "ngram"
    for _ in range(6):
        made.learn("ngram", 7, 0)
        made.learn("model", 7, 7)
    assert made.choose(both).source == "model"
    assert made.acceptance("ngram")[0] < 0.2 < 0.9 < made.acceptance("model")[0]


def test_a_conversation_starts_from_the_pairs_average_and_learns_its_own() -> None:
    known = pair(FLAT, 0.1)
    for _ in range(40):
        known.of("code").learn("model", 4, 4)
    code, fresh = known.of("code").acceptance("model"), known.of("prose").acceptance("model")
    assert fresh == known.rates("model", 0.9)
    for _ in range(8):
        known.of("prose").learn("model", 4, 0)
    assert known.of("prose").acceptance("model")[0] < 0.3
    assert known.of("code").acceptance("model")[0] > 0.9 * code[0]
    assert 0.3 < known.of("new").acceptance("model")[0] < 0.9


def test_conversations_are_bounded_and_the_oldest_is_forgotten() -> None:
    known = pair(FLAT, 0.1)
    first = known.of("0")
    for n in range(1, 64):
        known.of(str(n))
    assert known.of("0") is first
    known.of("64")
    assert known.of("0") is first
    assert len(known._policies) == 64
    second = known.of("2")
    for n in range(100, 163):
        known.of(str(n))
    assert known.of("2") is second
    assert known.of("0") is not first


def test_reading_waits_for_the_tenth_token_unless_it_is_won_back_by_then() -> None:
    behind = Offer("model", behind=64)
    for read, early in ((0.001, True), (0.06, False)):
        made = pair(FLAT, 0.1, read=read).of("chat")
        assert (made.choose(Moment((behind,), 7, 1)).k > 0) == early
        assert made.choose(Moment((behind,), 7, 10)).k > 0


def test_reading_more_than_was_ever_won_is_not_begun() -> None:
    known = pair(FLAT, 0.1, read=0.1)
    long = Moment((Offer("model", behind=300),), 7, 100)
    plan = known.of("chat").choose(long)
    assert (plan.k, plan.off) == (0, True)
    for _ in range(20):
        known.of("other").learn("model", 7, 7)  # gains are kept for reading
    assert known.of("chat").choose(long).k > 0
    assert known.account.reading < 10


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5, 0.8])
@pytest.mark.parametrize("draft", [0.05, 0.25, 1.0])
@pytest.mark.parametrize("costs", [FLAT, {1: 1.0, 2: 2.2, 8: 3.0}, DEAR], ids=["flat", "x3", "x8"])
def test_drafting_never_costs_more_than_its_credit(
    costs: dict[int, float], draft: float, rate: float
) -> None:
    """After any number of tokens: plain time, the share, and the credit it begins with."""
    known = pair(costs, draft)
    made, rng, spent, tokens = known.of("chat"), random.Random(3), 0.0, 0
    for _ in range(600):
        k = made.choose(ANY).k
        accepted = 0
        while accepted < k and rng.random() < rate:
            accepted += 1
        if k:
            made.learn("model", k, accepted)
        spent += k * draft + known.score[k]
        tokens += accepted + 1
        assert spent <= (1 + SHARE) * tokens + CREDIT + 1e-9


def test_acceptance_is_per_depth_and_conditional() -> None:
    seen = Acceptance(4, decay=1.0)
    for _ in range(300):
        seen.learn(4, 2)  # the first two always kept, the third never, no fourth reached
    first, second, third, fourth = seen.rates(0.9)
    assert first > 0.97
    assert second > 0.97
    assert third < 0.06
    assert fourth == pytest.approx(third)  # nothing seen: as the depth before
    assert seen.rates(0.9, [0.5] * 4)[3] == pytest.approx((third + 0.5) / 2, abs=0.01)


def test_short_drafts_teach_only_what_they_show() -> None:
    """A drafter may propose fewer than k; full acceptance of two says nothing against a third."""
    made = policy(FLAT, 0.1)
    for _ in range(100):
        made.learn("model", 2, 2)
    assert min(made.acceptance("model")) > 0.9


def test_costs_between_and_beyond_measured_widths() -> None:
    known = pair({1: 1.0, 4: 4.0, 8: 4.0}, 0.0, 9)
    assert known.score == pytest.approx([1, 2, 3, 4, 4, 4, 4, 4, 4, 4])


def test_choice_depends_on_past_outcomes_only() -> None:
    one, other = policy(FLAT, 0.1), policy(FLAT, 0.1)
    for drafted, accepted in ((7, 2), (5, 5), (1, 0)):
        for made in (one, other):
            made.choose(ANY)
            made.learn("model", drafted, accepted)
        assert one.choose(ANY) == other.choose(ANY)


def test_what_is_free_need_not_wait() -> None:
    known = Lengths(FLAT, {"model": DraftCost(0.9)}, 7)
    assert known.of("chat").choose(Moment((MODEL,), 7, 2)).k == 0
    assert known.of("chat").choose(Moment((Offer("ngram"), MODEL), 7, 2)).source == "ngram"
