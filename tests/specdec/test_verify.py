"""The two acceptance rules on hand-made laws, faults included."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import pytest
import torch

from specdec.drafters.base import Draft
from specdec.errors import EngineError
from specdec.noise import Noise
from specdec.sampling import Law, draw
from specdec.verify import RULES, Outcome, match, reject, residual

pytestmark = pytest.mark.usefixtures("one_thread")

P = [0.30, 0.25, 0.20, 0.15, 0.10]


def law_of(probs: list[float], size: int | None = None) -> Law:
    kept = [i for i, mass in enumerate(probs) if mass > 0]
    scores = torch.tensor([probs[i] for i in kept]).log()
    return Law(torch.tensor(kept), scores, size or len(probs))


def one_hot(token: int, size: int = 5) -> Law:
    return Law(torch.tensor([token]), torch.zeros(1), size)


def rows(*laws: Law) -> tuple[Callable[[int], Law], list[int]]:
    asked: list[int] = []

    def get(j: int) -> Law:
        asked.append(j)
        return laws[j]

    return get, asked


# --- match ----------------------------------------------------------------------------------


def test_match_keeps_all_and_adds_the_bonus() -> None:
    laws, asked = rows(one_hot(3), one_hot(1), one_hot(4))
    assert match(Draft((3, 1), (None, None)), laws, Noise(0, 0), 0) == Outcome(2, (3, 1, 4))
    assert asked == [0, 1, 2]


def test_match_stops_at_the_first_difference_and_asks_no_further() -> None:
    laws, asked = rows(one_hot(3), one_hot(1), one_hot(4))
    assert match(Draft((3, 2, 4), (None,) * 3), laws, Noise(0, 0), 0) == Outcome(1, (3, 1))
    assert asked == [0, 1]


def test_match_with_no_draft_is_plain_decoding() -> None:
    laws, _ = rows(one_hot(2))
    assert match(Draft(), laws, Noise(0, 0), 0) == Outcome(0, (2,))


def test_match_says_the_same_whatever_was_drafted() -> None:
    p, noise = law_of(P), Noise.of(3, [1])
    plain = [draw(p, noise, i, "target") for i in range(40)]
    laws, _ = rows(*[p] * 5)
    for drafts in ([0, 0, 0, 0], [4, 1, 2, 3], [], [1]):
        said: list[int] = []
        while len(said) < 30:
            draft = Draft(tuple(drafts), (None,) * len(drafts))
            said += match(draft, laws, noise, len(said)).tokens
        assert said[:30] == plain[:30]
    right = match(Draft(tuple(plain[7:11]), (None,) * 4), laws, noise, 7)
    assert right == Outcome(4, tuple(plain[7:12]))  # the index is the reply's, not the round's


# --- reject ---------------------------------------------------------------------------------


def share(outcomes: list[int]) -> list[float]:
    counts = Counter(outcomes)
    return [counts[i] / len(outcomes) for i in range(5)]


@pytest.mark.parametrize("q", [[0.05, 0.05, 0.1, 0.2, 0.6], [1, 0, 0, 0, 0], [0, 0.5, 0, 0.5, 0]])
def test_reject_gives_p_for_any_q(q: list[float]) -> None:
    p, n = law_of(P), 1500
    laws, _ = rows(p, p)
    firsts = []
    for seed in range(n):
        noise = Noise.of(seed, [9])
        x = draw(law_of(q), noise, 0, "draft")
        firsts.append(reject(Draft((x,), (law_of(q),)), laws, noise, 0).tokens[0])
    for mine, true in zip(share(firsts), P, strict=True):
        assert abs(mine - true) < 4.5 * math.sqrt(true * (1 - true) / n)


def test_reject_takes_none_as_one_hot() -> None:
    """A05: argmax or looked-up proposals; the ratio is p/1, the residual p without x."""
    p, n = law_of(P), 1500
    laws, _ = rows(p, p)
    outcomes = [reject(Draft((1,), (None,)), laws, Noise.of(s, [9]), 0) for s in range(n)]
    for mine, true in zip(share([o.tokens[0] for o in outcomes]), P, strict=True):
        assert abs(mine - true) < 4.5 * math.sqrt(true * (1 - true) / n)
    assert sum(o.accepted for o in outcomes) / n == pytest.approx(0.25, abs=0.04)


def test_reject_at_temperature_zero_compares_tokens() -> None:
    laws, asked = rows(one_hot(3), one_hot(1), one_hot(4))
    right = Draft((3, 1), (one_hot(3), one_hot(1)))
    assert reject(right, laws, Noise(0, 0), 0) == Outcome(2, (3, 1, 4))
    wrong = Draft((3, 2), (one_hot(3), None))
    asked.clear()
    assert reject(wrong, laws, Noise(0, 0), 0) == Outcome(1, (3, 1))
    assert asked == [0, 1]


def test_reject_accepts_surely_where_q_is_p() -> None:
    p = law_of(P)
    laws, _ = rows(p, p)
    for seed in range(200):
        assert reject(Draft((4,), (p,)), laws, Noise.of(seed, [1]), 0).accepted == 1


def test_reject_never_emits_what_p_cannot_say() -> None:
    p, q = law_of([0.5, 0.5, 0, 0, 0]), law_of([0.1, 0, 0.9, 0, 0])
    laws, _ = rows(p, p)
    for seed in range(400):
        outcome = reject(Draft((2,), (q,)), laws, Noise.of(seed, [1]), 0)
        assert outcome.accepted == 0
        assert outcome.tokens[0] in (0, 1)


def test_reject_calls_a_token_its_own_law_cannot_draw_a_fault() -> None:
    laws, _ = rows(law_of(P), law_of(P))
    with pytest.raises(EngineError, match="token 2"):
        reject(Draft((2,), (law_of([1, 0, 0, 0, 0]),)), laws, Noise(0, 0), 0)


def test_residual_by_hand_and_its_fallback() -> None:
    p = law_of(P)
    rest = residual(p, law_of([0.4, 0.05, 0.2, 0.15, 0.2]), 0)
    assert rest.dense().tolist() == pytest.approx([0, 1, 0, 0, 0], abs=1e-6)
    rest = residual(p, law_of([0.1, 0.05, 0.45, 0.3, 0.1]), 2)
    assert rest.dense().tolist() == pytest.approx([0.5, 0.5, 0, 0, 0], abs=1e-6)
    assert residual(p, p, 0) is p  # zero everywhere: p itself
    assert residual(one_hot(3), None, 3).ids.tolist() == [3]


def test_vocabularies_padded_differently() -> None:
    """A19: q may know ids p does not, and the other way round."""
    p, q = law_of(P), law_of([0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.4])
    laws, _ = rows(p, p)
    for seed in range(100):
        outcome = reject(Draft((6,), (q,)), laws, Noise.of(seed, [1]), 0)
        assert outcome.accepted == 0
        assert outcome.tokens[0] < 5
    small = law_of([0.5, 0.5])
    assert residual(p, small, 0).dense().tolist() == pytest.approx([0, 0, 4 / 9, 3 / 9, 2 / 9])


def test_noise_of_reject_is_not_the_drafters() -> None:
    """A correction drawn with the noise that chose the draft would shun what nearly won there."""
    p, q, n = law_of([0.5, 0.5, 0, 0, 0]), law_of([0.3, 0, 0.7, 0, 0]), 1500
    laws, _ = rows(p, p)
    firsts: list[int] = []
    coins: dict[int, list[float]] = {0: [], 2: []}
    for seed in range(n):
        noise = Noise.of(seed, [9])
        x = draw(q, noise, 0, "draft")
        coins[x].append(noise.uniform(0, "accept"))
        firsts.append(reject(Draft((x,), (q,)), laws, noise, 0).tokens[0])
    assert share(firsts)[0] == pytest.approx(0.5, abs=4.5 * math.sqrt(0.25 / n))
    for thrown in coins.values():  # nor does the token drafted say anything about the coin
        assert sum(thrown) / len(thrown) == pytest.approx(0.5, abs=4.5 / math.sqrt(12 * 400))


def test_every_position_throws_its_own_coin() -> None:
    """Kept at the first place, a token still has to pass at the second."""
    p, n = law_of([0.5, 0.5]), 600
    laws, _ = rows(p, p, p)
    draft = Draft((0, 0), (None, None))
    kept = Counter(reject(draft, laws, Noise.of(s, [9]), 0).accepted for s in range(n))
    for accepted, true in ((0, 0.5), (1, 0.25), (2, 0.25)):
        assert kept[accepted] / n == pytest.approx(true, abs=4.5 * math.sqrt(0.25 / n))


def test_rules_by_name() -> None:
    assert (RULES["match"], RULES["reject"]) == (match, reject)
