"""Lookup drafts: the longest, most recent match; never from a rejected past; cheap."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import pytest

from specdec.drafters import ngram
from specdec.drafters.base import Context
from specdec.drafters.ngram import NgramDrafter
from specdec.drafters.none import NoDrafter
from specdec.noise import Noise
from specdec.request import Sampling


def context(tokens: Sequence[int]) -> Context:
    return Context(tokens, 0, Sampling(), "match", Noise(0, 0))


def drafted(tokens: Sequence[int], k: int = 4) -> list[int]:
    return list(NgramDrafter().propose(context(tokens), k).tokens)


def test_proposes_what_followed() -> None:
    assert drafted([1, 2, 3, 4, 5, 6, 1, 2], 3) == [3, 4, 5]
    assert drafted([1, 2, 3, 4, 5, 6, 1, 2], 0) == []


def test_laws_are_one_hot() -> None:
    draft = NgramDrafter().propose(context([1, 2, 3, 1, 2]), 2)
    assert draft.laws == (None,) * len(draft.tokens)
    assert len(draft.tokens) == 2


def test_nothing_without_a_run_of_two() -> None:
    assert drafted([]) == []
    assert drafted([1]) == []
    assert drafted([1, 2]) == []
    assert drafted([7, 2, 8, 2]) == []


def test_the_longest_run_wins_over_a_more_recent_shorter_one() -> None:
    tokens = [9, 1, 2, 3, 50, 8, 8, 2, 3, 60, 7, 9, 1, 2, 3]
    assert drafted(tokens, 1) == [50]


def test_the_most_recent_of_equal_runs_wins() -> None:
    assert drafted([1, 2, 50, 7, 1, 2, 60, 7, 1, 2], 1) == [60]


def test_a_loop_goes_round() -> None:
    assert drafted([5, 1, 2, 3, 1, 2, 3, 1, 2], 7) == [3, 1, 2, 3, 1, 2, 3]
    assert drafted([4, 4, 4], 5) == [4] * 5


def test_prompt_and_reply_both_count() -> None:
    tokens = [1, 2, 3, 4, 1, 2]
    draft = NgramDrafter().propose(Context(tokens, 4, Sampling(), "match", Noise(0, 0)), 2)
    assert draft.tokens == (3, 4)


def test_growing_is_the_same_as_starting_over() -> None:
    tokens = [(i * i + i // 7) % 11 for i in range(400)]
    grown = NgramDrafter()
    for end in range(1, 400, 3):
        ours = grown.propose(context(tokens[:end]), 5)
        assert list(ours.tokens) == drafted(tokens[:end], 5)
        grown.settle(tokens[:end], 0)


def test_an_edited_past_leaves_no_trace() -> None:
    """Tokens that were edited away or rejected are never proposed again."""
    one = NgramDrafter()
    one.propose(context([1, 2, 77, 78, 79, 5]), 3)
    longer = [1, 2, 3, 4, 9, 9, 9, 77, 78]  # what followed 77, 78 is gone
    for changed in (longer, [1, 2, 3, 1, 2], [1, 2], [1, 2, 77, 4, 1, 2]):
        one.begin(changed)
        assert one.propose(context(changed), 3).tokens == tuple(drafted(changed, 3))


def kind(tokens: Sequence[int], earlier: Shelf | None = None) -> str:
    (offer,) = NgramDrafter(earlier).offers(tokens)
    assert offer.source == "ngram"
    return offer.learned_by


def test_the_length_of_a_run_names_what_is_learned_and_hoped() -> None:
    text = list(range(40))
    assert NgramDrafter().offers(text) == ()
    assert NgramDrafter().offers([*text, 5]) == ()  # a single token is no run
    names = {n: kind([*text, 99, *text[:n]]) for n in range(2, 30)}
    assert [names[n] for n in (2, 3)] == ["ngram, short run"] * 2
    assert [names[n] for n in (4, 7)] == ["ngram, run"] * 2
    assert [names[n] for n in (8, 15)] == ["ngram, long run"] * 2
    assert [names[n] for n in (16, 29)] == ["ngram, passage"] * 2
    hopes = [NgramDrafter().offers([*text, 99, *text[:n]])[0].hope for n in (2, 4, 8, 16)]
    assert hopes == sorted(hopes)
    assert hopes[0] < hopes[1]
    assert len(NgramDrafter().offers([*text, 99, *text[:5]], 5)) == 1
    assert NgramDrafter().offers([*text, 99, *text[:5]], 6) == ()


class Shelf:
    """Earlier texts by brute force, the most recent last."""

    def __init__(self, *tokens: int) -> None:
        self.tokens = tokens

    def find(self, tokens: Sequence[int], least: int) -> tuple[int, int]:
        for run in range(len(tokens), least - 1, -1):
            for place in range(len(self.tokens) - 1, run - 1, -1):
                if self.tokens[place - run : place] == tuple(tokens[len(tokens) - run :]):
                    return run, place
        return 0, 0

    def after(self, place: int, k: int) -> tuple[int, ...]:
        return self.tokens[place : place + k]


def test_an_earlier_text_serves_where_its_run_is_longer() -> None:
    one = NgramDrafter(Shelf(1, 2, 3, 4, 70, 71))
    draft = one.propose(context([2, 3, 50, 1, 2, 3]), 4)
    assert (draft.tokens, draft.laws) == ((4, 70, 71), (None,) * 3)  # and ends where that ends
    assert kind([2, 3, 50, 1, 2, 3], Shelf(1, 2, 3, 4, 70, 71)) == "ngram, stored short run"


def test_the_conversation_wins_a_tie() -> None:
    one = NgramDrafter(Shelf(1, 2, 3, 70))
    tokens = [1, 2, 3, 50, 1, 2, 3]
    assert one.propose(context(tokens), 1).tokens == (50,)
    assert kind(tokens, Shelf(1, 2, 3, 70)) == "ngram, short run"


def test_a_long_text_forgets_its_older_half(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ngram, "MOST", 64)
    one, tokens = NgramDrafter(), list(range(60))
    assert one.propose(context([*tokens, 10, 11]), 2).tokens == (12, 13)
    tokens = [*tokens, 10, 11, *range(100, 110)]
    assert one.propose(context([*tokens, 10, 11]), 2).tokens == (100, 101)
    tokens = [*tokens, 10, 11, 3, 4]  # forgotten, beside what is still known
    assert one.offers(tokens) == ()
    tokens = [*tokens, 104, 105]
    assert one.propose(context(tokens), 3).tokens == (106, 107, 108)
    assert one._index.size <= 64


def test_a_past_edited_far_back_leaves_no_trace() -> None:
    """Only a sequence that was compared as a whole is trusted but for its end."""
    one, tail = NgramDrafter(), list(range(500, 700))
    old = [1, 2, 3, 77, *tail, 1, 2, 3]
    assert one.propose(context(old), 1).tokens == (77,)
    for past in ([1, 2, 3, 88, *tail, 1, 2, 3], [9, 9, 9, 9, *tail, 1, 2, 3]):
        one.begin(past)
        assert one.propose(context(past), 1).tokens == tuple(drafted(past, 1))
    fresh = [1, 2, 3, 66, *tail, 1, 2, 3]
    assert one.propose(context(fresh), 1).tokens == (66,)  # not announced either
    del fresh[-100:]
    assert one.propose(context(fresh), 1).tokens == tuple(drafted(fresh, 1))


def test_cheap_at_eight_thousand_tokens() -> None:
    """DESIGN: under 0.2 ms a round on a quiet machine; generous here, the machine may be busy."""
    tokens = [(i * 7919) % 5003 for i in range(8000)]
    one = NgramDrafter()
    one.propose(context(tokens), 7)
    times = []
    for i in range(200):
        tokens += [i, i + 1, i + 2]
        started = perf_counter()
        one.propose(context(tokens), 7)
        times.append(perf_counter() - started)
    assert sorted(times)[100] < 1e-3


@pytest.mark.parametrize("drafter", [NoDrafter(), NgramDrafter()])
def test_needs_no_reading(drafter: NoDrafter | NgramDrafter) -> None:
    drafter.begin([1, 2, 3])
    assert drafter.catch_up([1, 2, 3]) is True
    drafter.settle([1, 2, 3], 0)


def test_no_drafter_proposes_nothing() -> None:
    assert NoDrafter().propose(context([1, 2, 3, 1, 2]), 7).tokens == ()
