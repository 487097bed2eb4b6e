"""The automaton against brute force: every prefix of short-alphabet texts, and its bounds."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from specdec.drafters import automaton
from specdec.drafters.automaton import Automaton


def brute(tokens: Sequence[int]) -> tuple[int, int]:
    """Longest run of last tokens that also ended earlier, and the place after the latest such."""
    end = len(tokens)
    best = (0, 0)
    for place in range(1, end):
        run = 0
        while run < place and tokens[place - 1 - run] == tokens[end - 1 - run]:
            run += 1
        if run and run >= best[0]:
            best = (run, place)
    return best


def texts() -> list[list[int]]:
    made = []
    for seed in range(60):
        coin = random.Random(seed)
        letters, length = coin.choice([1, 2, 2, 3, 4, 9]), coin.randrange(1, 60)
        made.append([coin.randrange(letters) for _ in range(length)])
    passage = [random.Random(1).randrange(50) for _ in range(40)]
    made.append([*passage, 99, *passage[5:30], 98, *passage, 97, *passage[:20]])
    return made


@pytest.mark.parametrize("tokens", texts(), ids=lambda t: f"{len(set(t))}x{len(t)}")
def test_every_prefix_finds_what_brute_force_finds(tokens: list[int]) -> None:
    one = Automaton()
    for end, token in enumerate(tokens, 1):
        one.extend(token)
        assert (one.run, one.place) == brute(tokens[:end]), tokens[:end]


def test_a_short_walk_still_names_true_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """With marks cut short the run is still the longest, and the place still holds it."""
    monkeypatch.setattr(automaton, "_WALK", 1)
    for tokens in texts():
        one = Automaton()
        for end, token in enumerate(tokens, 1):
            one.extend(token)
            run, _ = brute(tokens[:end])
            assert one.run == run
            assert one.place < end
            assert tokens[one.place - run : one.place] == tokens[end - run : end]


@pytest.mark.parametrize("letters", [1, 2, 50])
def test_it_is_linear(letters: int) -> None:
    coin, one = random.Random(3), Automaton()
    for _ in range(20_000):
        one.extend(coin.randrange(letters))
    assert len(one._next) <= 2 * one.size
    assert sum(map(len, one._next)) <= 3 * one.size
