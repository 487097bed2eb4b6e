"""States by position: what is held belongs to the tokens that are cached, whatever was rewound."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from specdec.heads.states import States, Tap


def rows(*values: int) -> Tensor:
    return torch.tensor([[float(value)] for value in values])


def held(states: States) -> dict[int, int]:
    """Value by position; looks and takes nothing."""
    first, end = states.first, states.end
    pieces = [(at, piece) for at, piece in states._pieces]
    found = {at + i: int(row) for at, piece in pieces for i, row in enumerate(piece)}
    assert sorted(found) == list(range(first, end))
    return found


def test_what_is_put_again_replaces_what_followed() -> None:
    states = States((2,))
    states.put(0, rows(0, 1, 2))
    states.put(3, rows(3, 4))
    states.put(2, rows(20))
    assert held(states) == {0: 0, 1: 1, 2: 20}
    states.cut(1)
    assert held(states) == {0: 0}
    states.cut(0)
    assert (states.first, states.end) == (0, 0)


def test_a_gap_lets_go_of_what_was_before_it() -> None:
    states = States((2,))
    states.put(0, rows(0, 1))
    states.put(5, rows(5))
    assert held(states) == {5: 5}


def test_taking_lets_go_and_asks_for_what_is_there() -> None:
    states = States((2,))
    states.put(0, rows(0, 1, 2))
    states.put(3, rows(3, 4, 5))
    assert states.take(1, 4)[:, 0].tolist() == [1, 2, 3]
    assert held(states) == {4: 4, 5: 5}
    for start, stop in ((3, 5), (4, 7), (5, 5)):
        with pytest.raises(ValueError, match="are held"):
            states.take(start, stop)
    assert states.take(4, 6)[:, 0].tolist() == [4, 5]
    assert (states.first, states.end) == (6, 6)


def test_the_oldest_go_beyond_the_bound() -> None:
    states = States((2,), most=3)
    for at in range(0, 10, 2):
        states.put(at, rows(at, at + 1))
    assert held(states) == {7: 7, 8: 8, 9: 9}
    states.cut(8)
    states.put(8, rows(80))
    assert held(states) == {7: 7, 8: 80}


def test_another_owners_rows_are_let_go() -> None:
    states, one, other = States((2,)), object(), object()
    states.bind(one)
    states.put(0, rows(0, 1))
    states.bind(one)
    assert held(states) == {0: 0, 1: 1}
    states.bind(other)
    assert states.end == 0


def test_a_tap_takes_its_layers_in_order_and_no_padding() -> None:
    tap = Tap((0, 2))
    for layer in range(4):
        tap.see(layer, torch.full((3, 2), float(layer)))
    assert tap.last == 2
    assert tap.rows(2).tolist() == [[0, 0, 2, 2]] * 2
    states = States((0, 2))
    assert states.tap() is None
    states.open = True
    assert states.tap() is not None
