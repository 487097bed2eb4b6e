"""The sorted passages against brute force: longest run, latest place, never across two texts."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from specdec.drafters.passages import END, REACH, Passages


def brute(texts: Sequence[Sequence[int]], tokens: Sequence[int], least: int) -> tuple[int, int]:
    """Compares every place of every text."""
    flat = [END]
    for text in texts:
        flat += [*text, END]
    best = (0, 0)
    for place in range(1, len(flat)):
        run = 0
        while run < min(len(tokens), REACH) and flat[place - 1 - run] == tokens[-1 - run]:
            run += 1
        if flat[place] != END and run >= max(least, best[0]) and run:
            best = (run, place)
    return best


@pytest.mark.parametrize("seed", range(40))
def test_finds_what_brute_force_finds(seed: int) -> None:
    coin = random.Random(seed)
    letters = coin.choice([1, 2, 3, 8, 200_000])
    texts = [
        [coin.randrange(letters) for _ in range(coin.randrange(0, 60))]
        for _ in range(coin.randrange(0, 6))
    ]
    index = Passages(texts)
    for _ in range(40):
        tokens = [coin.randrange(letters) for _ in range(coin.randrange(0, 5))]
        source = coin.choice(texts) if texts else []
        tokens += source[: coin.randrange(0, len(source) + 1)]
        least = coin.randrange(1, 6)
        assert index.find(tokens, least) == brute(texts, tokens, least)


def test_a_copy_ends_with_its_text() -> None:
    index = Passages([[1, 2, 3, 4], [5, 6]])
    run, place = index.find([9, 1, 2], 2)
    assert run == 2
    assert [index.after(place, k) for k in (0, 1, 2, 7)] == [(), (3,), (3, 4), (3, 4)]


def test_nothing_is_found_where_nothing_follows_or_across_texts() -> None:
    index = Passages([[1, 2, 3], [4, 5, 6]])
    assert index.find([2, 3], 1) == (0, 0)
    assert index.find([3, 4], 2) == (0, 0)
    assert index.find([3, 4], 1)[0] == 1
    assert Passages([]).find([1, 2], 1) == (0, 0)


def test_runs_beyond_its_reach_count_as_its_reach() -> None:
    text = list(range(REACH + 9))
    index = Passages([text, [99], [*text[4:], 77]])
    run, place = index.find(text, 2)
    assert (run, index.after(place, 1)) == (REACH, (77,))  # the latest of equals
