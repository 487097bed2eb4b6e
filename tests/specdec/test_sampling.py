"""Laws: order, ties, penalties, faults; and draws that prune nothing that could have won."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from specdec.errors import EngineError
from specdec.noise import Noise
from specdec.request import Sampling
from specdec.sampling import Law, draw, first_largest, law

INF = math.inf


pytestmark = pytest.mark.usefixtures("one_thread")


def of(
    logits: Sequence[float] | Tensor, tokens: Sequence[int] = (), start: int = 0, **s: object
) -> Law:
    s.setdefault("temperature", 1.0)
    return law(torch.as_tensor(logits, dtype=torch.float32), Sampling(**s), tokens, start)  # type: ignore[arg-type]


def random_logits(size: int, seed: int, spread: float = 3.0) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)) * spread


# --- greedy ---------------------------------------------------------------------------------


def test_greedy_is_one_hot_at_the_lowest_of_equals() -> None:
    p = of([1.0, 5.0, 5.0, 5.0, -INF], temperature=0)
    assert p.one_hot
    assert p.ids.tolist() == [1]
    assert p.dense().tolist() == [0, 1, 0, 0, 0]
    assert draw(p, Noise(0, 0), 0, "target") == 1


def test_greedy_tie_far_apart_in_a_large_vocabulary() -> None:
    logits = random_logits(151_936, 1)
    logits[[150_000, 77_777, 31]] = 40.0
    assert of(logits, temperature=0).ids.tolist() == [31]


def test_greedy_ignores_filters_but_not_penalties() -> None:
    plain = of([1.0, 3.0, 2.9], temperature=0, top_k=1, top_p=0.1, min_p=1.0)
    assert plain.ids.tolist() == [1]
    assert of([1.0, 3.0, 2.9], [1], 0, temperature=0, presence_penalty=0.5).ids.tolist() == [2]


def test_a_tiny_temperature_does_not_divide_by_zero() -> None:
    for temperature in (1e-3, 1e-40, 5e-324):
        p = of([1.0, 3.0, 2.0], temperature=temperature)
        assert p.probs().tolist() == [0, 1, 0]
        assert draw(p, Noise(0, 0), 0, "target") == 1


# --- order and ties -------------------------------------------------------------------------


def test_off_means_softmax_of_logits_over_temperature() -> None:
    logits = random_logits(300, 2)
    for temperature in (0.3, 1.0, 2.5):
        p = of(logits, temperature=temperature)
        assert torch.allclose(p.probs(), torch.softmax(logits / temperature, 0), atol=1e-7)
        assert p.ids.tolist() == list(range(300))


def test_top_k_keeps_all_equal_to_the_kth() -> None:
    assert of([3.0, 1.0, 2.0, 2.0, 2.0], top_k=2).ids.tolist() == [0, 2, 3, 4]
    assert of([3.0, 1.0, 2.0, 2.0, 2.0], top_k=1).ids.tolist() == [0]


@pytest.mark.parametrize("k", [0, 5, 6, 10**9])
def test_top_k_of_nothing_or_everything_is_off(k: int) -> None:
    assert of([3.0, 1.0, 2.0, 2.0, 0.0], top_k=k).ids.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("size", [50, 4096, 32_000, 49_152, 151_936])
@pytest.mark.parametrize("k", [1, 20, 700])
def test_top_k_equals_sorting(size: int, k: int) -> None:
    logits = (random_logits(size, size) * 50).round() / 50  # with ties
    edge = logits.sort(descending=True).values[min(k, size) - 1]
    assert of(logits, top_k=k).ids.tolist() == (logits >= edge).nonzero().squeeze(1).tolist()


def test_top_p_is_the_fewest_that_reach_it() -> None:
    logits = torch.tensor([0.1, 0.4, 0.2, 0.3]).log()
    assert of(logits, top_p=0.39).ids.tolist() == [1]
    assert of(logits, top_p=0.41).ids.tolist() == [1, 3]
    assert of(logits, top_p=0.71).ids.tolist() == [1, 2, 3]
    assert of(logits, top_p=0.95).ids.tolist() == [0, 1, 2, 3]
    assert of(logits, top_p=1e-9).ids.tolist() == [1]


def test_top_p_keeps_the_lowest_of_equals() -> None:
    assert of([0.0, 0.0, 0.0, 0.0], top_p=0.5).ids.tolist() == [0, 1]
    assert of([0.0, 0.0, 1.0, 0.0, 0.0], top_p=0.5).ids.tolist() == [0, 2]
    assert of([0.0] * 5000, top_p=0.6).ids.tolist() == list(range(3000))


def sorted_nucleus(logits: Tensor, top_p: float) -> list[int]:
    """The definition, in float64: stable sort, cumulative sum."""
    mass = torch.softmax(logits.double(), 0)
    order = logits.sort(descending=True, stable=True).indices
    before = mass[order].cumsum(0) - mass[order]
    return sorted(order[before < top_p].tolist())


@pytest.mark.parametrize("spread", [0.05, 0.5, 1.5, 4.0])
@pytest.mark.parametrize("size", [40, 3000, 49_152])
def test_top_p_equals_sorting(size: int, spread: float) -> None:
    logits = random_logits(size, 7, spread)
    for top_p in (0.2, 0.9, 0.99):
        ours, theirs = set(of(logits, top_p=top_p).ids.tolist()), set(sorted_nucleus(logits, top_p))
        # float32 sums put the edge an id or so off in 49,152 nearly equal ones
        assert len(ours ^ theirs) <= (0 if size < 100 else 2 + size * 1e-4)
        assert min(logits[list(ours)]) >= max(logits[list(theirs - ours)], default=-INF)


def test_min_p_is_a_share_of_the_best() -> None:
    logits = torch.tensor([0.5, 0.26, 0.24]).log()
    assert of(logits, min_p=0.5).ids.tolist() == [0, 1]
    assert of(logits, min_p=1.0).ids.tolist() == [0]


def test_order_temperature_then_top_k_then_top_p_then_min_p() -> None:
    logits = torch.tensor([0.4, 0.3, 0.2, 0.1]).log()
    # temperature first: at T = 0.5 the masses are 16:9:4:1 of 30, so 0.5 is reached by one id
    assert of(logits, temperature=0.5, top_p=0.5).ids.tolist() == [0]
    assert of(logits, temperature=1.0, top_p=0.5).ids.tolist() == [0, 1]
    # top-k before top-p: of the best two, 4/7 reaches 0.5 alone; of all four it would not
    assert of(logits, top_k=2, top_p=0.5).ids.tolist() == [0]
    # min-p last and relative to the best: unaffected by what top-p removed
    assert of(logits, top_p=0.65, min_p=0.7).ids.tolist() == [0, 1]


# --- penalties ------------------------------------------------------------------------------


def test_repetition_sees_prompt_and_reply_the_others_the_reply() -> None:
    logits = [2.0, -2.0, 1.0, 0.5]
    tokens, start = [0, 1, 2, 2], 2
    p = of(logits, tokens, start, repetition_penalty=2.0)
    assert torch.allclose(p.probs(), torch.softmax(torch.tensor([1.0, -4.0, 0.5, 0.5]), 0))
    p = of(logits, tokens, start, frequency_penalty=0.25)
    assert torch.allclose(p.probs(), torch.softmax(torch.tensor([2.0, -2.0, 0.5, 0.5]), 0))
    p = of(logits, tokens, start, presence_penalty=0.25)
    assert torch.allclose(p.probs(), torch.softmax(torch.tensor([2.0, -2.0, 0.75, 0.5]), 0))
    p = of(logits, tokens, start, repetition_penalty=2.0, frequency_penalty=0.25, temperature=0.5)
    assert torch.allclose(p.probs(), torch.softmax(torch.tensor([1.0, -4.0, 0.0, 0.5]) * 2, 0))


def test_every_position_sees_the_drafted_tokens_before_it() -> None:
    """A08: the law after a drafted token is that of the sequence with it."""
    logits = [1.0, 0.9]
    before = of(logits, [1], 1, temperature=0, presence_penalty=0.5)
    after = of(logits, [1, 0], 1, temperature=0, presence_penalty=0.5)
    assert (before.ids.tolist(), after.ids.tolist()) == ([0], [1])


def test_penalties_leave_the_logits_alone_and_skip_ids_of_a_larger_vocabulary() -> None:
    logits = torch.tensor([2.0, 1.0, -INF])
    p = of(logits, [0, 700, 2], 0, repetition_penalty=1.5, frequency_penalty=1, presence_penalty=1)
    assert logits.tolist() == [2.0, 1.0, -INF]
    assert p.probs()[2] == 0
    assert of(logits, [], 0, frequency_penalty=1.0).ids.tolist() == [0, 1, 2]


# --- faults ---------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("bad", [[1.0, math.nan, 2.0], [-INF, -INF, -INF], [1.0, INF, 0.0]])
def test_scores_that_are_no_scores_are_never_sampled(bad: list[float], temperature: float) -> None:
    """A28."""
    for filters in ({}, {"top_k": 2}, {"top_p": 0.5}, {"repetition_penalty": 1.1}):
        with pytest.raises(EngineError) as caught:
            of(bad, [0], 0, temperature=temperature, **filters)
        assert caught.value.hint


def test_padded_rows_are_never_drawn() -> None:
    """A21: rows beyond the tokenizer are -inf; the hottest law gives them nothing."""
    logits = torch.cat((random_logits(900, 3, 0.01), torch.full((1100,), -INF)))
    for filters in ({}, {"top_k": 1500}, {"top_p": 0.999}, {"min_p": 1e-9}):
        p = of(logits, temperature=5.0, **filters)
        assert p.dense()[900:].sum() == 0
        assert max(draw(p, Noise(1, 1), i, "target") for i in range(300)) < 900


# --- Law ------------------------------------------------------------------------------------


def test_law_in_its_three_forms() -> None:
    p = of([0.0, 1.0, 5.0, 1.0], top_k=2)
    assert p.ids.tolist() == [1, 2, 3]
    assert float(p.probs().sum()) == pytest.approx(1.0)
    assert [p.prob(i) for i in range(4)] == pytest.approx(p.dense().tolist())
    assert p.prob(0) == 0
    assert p.prob(99) == 0
    assert not p.one_hot


# --- draw -----------------------------------------------------------------------------------


def naive(p: Law, noise: Noise, index: int) -> int:
    values = p.scores - noise.exponential(index, "target", p.ids).log()
    return int(p.ids[int((values == values.max()).nonzero()[0])])


LARGE: list[tuple[str, float, dict[str, object]]] = [
    ("flat", 0.01, {}),
    ("wide", 1.0, {}),
    ("won far from the best", 3.1, {}),
    ("peaked", 6.0, {}),
    ("many survive a filter", 0.5, {"top_p": 0.95}),
    ("some survive", 2.0, {"top_k": 3000}),
    ("few survive", 3.0, {"min_p": 0.02}),
]


@pytest.mark.parametrize(("name", "spread", "filters"), LARGE, ids=[row[0] for row in LARGE])
@pytest.mark.parametrize("size", [151_936, 50_257, 1000])
def test_pruning_never_changes_the_draw(
    size: int, name: str, spread: float, filters: dict[str, object]
) -> None:
    p = of(random_logits(size, 11, spread), **filters)
    noise = Noise.of(5, [6])
    for index in range(12):
        assert draw(p, noise, index, "target") == naive(p, noise, index)


def test_pruning_with_mass_in_few_ids_and_masked_rows() -> None:
    logits = torch.full((20_000,), -INF)
    logits[[5, 13_000, 13_001]] = torch.tensor([0.0, 1.0, 2.0])
    p = of(logits)
    noise = Noise.of(5, [6])
    assert [draw(p, noise, i, "target") for i in range(60)] == [
        naive(p, noise, i) for i in range(60)
    ]


def test_equal_values_go_to_the_lowest_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Noise, "exponential", lambda self, i, s, ids: torch.ones(len(ids)))
    for size in (5, 600):
        logits = torch.zeros(size)
        logits[2:] = 1.0
        assert draw(of(logits, top_k=size - 2), Noise(0, 0), 0, "target") == 2


@pytest.mark.parametrize("size", [6, 2000])
def test_draws_follow_the_law(size: int) -> None:
    p = of(random_logits(size, 5, 1.0 if size == 6 else 4.0))
    n = 3000
    drawn = Counter(draw(p, Noise.of(1, [i]), i % 7, "draft") for i in range(n))
    mass = p.dense().double()
    large = [i for i in range(size) if mass[i] * n >= 8]
    rest = n - sum(drawn[i] for i in large), n * (1 - float(mass[large].sum()))
    cells = [(drawn[i], n * float(mass[i])) for i in large]
    if rest[1] >= 8:
        cells.append(rest)
    statistic = sum((seen - expected) ** 2 / expected for seen, expected in cells)
    freedom = len(cells) - 1
    assert statistic < freedom + 4.5 * math.sqrt(2 * freedom) + 4


@pytest.mark.parametrize("size", [1, 63, 64, 127, 128, 129, 1000, 1024])
def test_the_first_largest_is_argmax(size: int) -> None:
    random = torch.Generator().manual_seed(size)
    for turn in range(60):
        row = torch.randint(0, 2 + turn % 9, (size,), generator=random).float()
        if turn % 3 == 0:
            row[torch.randint(0, size, (1 + turn % 2,), generator=random)] = torch.nan
        if turn % 5 == 0:
            row[: size // 2] = -torch.inf
        place = first_largest(row)
        assert place.shape == ()
        if row.isnan().any():
            assert row[place].isnan()
        else:
            assert int(place) == int((row == row.max()).nonzero()[0])
