"""One at a time, in order, with a bound."""

from __future__ import annotations

import threading

import pytest

from specdec.errors import BusyError
from specdec.turnstile import Turnstile


def test_tickets_go_one_at_a_time_in_the_order_they_came() -> None:
    line, order = Turnstile(), []
    tickets = [line.join() for _ in range(4)]
    assert [t.position for t in tickets] == [0, 1, 2, 3]

    def use(n: int) -> None:
        assert tickets[n].wait(5)
        order.append(n)
        tickets[n].leave()

    threads = [threading.Thread(target=use, args=(n,)) for n in (3, 1, 2)]
    for thread in threads:
        thread.start()
    assert not tickets[1].wait(0.05)
    assert order == []
    tickets[0].leave()
    for thread in threads:
        thread.join(5)
    assert order == [1, 2, 3]
    assert len(line) == 0


def test_leaving_the_middle_of_the_line_moves_the_rest_up() -> None:
    line = Turnstile()
    first, middle, last = line.join(), line.join(), line.join()
    with middle:
        pass
    middle.leave()
    assert last.position == 1
    assert first.wait(0)


def test_a_full_line_refuses() -> None:
    line = Turnstile(most=2)
    line.join(), line.join()
    with pytest.raises(BusyError, match="2 replies are waiting"):
        line.join()
