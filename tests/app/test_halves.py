"""What is drawn anew when a turn is added, and that nothing is lost by leaving the rest."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from app import bubbles
from app.chats import Thread
from app.records import StoredMessage
from app.session import Session, Sessions
from app.ui.halves import MORE, Halves

HALVES = Halves("head", "tail")


class Tab:
    """What a browser shows after each update."""

    def __init__(self) -> None:
        self.session = Session("t", "owner")
        self.shown = {"head": "", "tail": ""}
        self.redrawn = 0

    def show(self, thread: Thread) -> None:
        update = HALVES.update(self.session, thread)
        if isinstance(update["head"], str):
            self.redrawn += 1
            self.shown["head"] = update["head"]
        self.shown["tail"] = update["tail"]
        both = self.shown["head"] + self.shown["tail"]
        whole = bubbles.thread(thread)
        assert re.findall(r'data-id="\d+"', both) == re.findall(r'data-id="\d+"', whole)
        assert "".join(bubbles.turns(thread)) == "".join(
            re.findall(r"(?:<p class=\"cut\">[^<]*</p>)?<article.*?</article>", both, re.S)
        )


def thread(count: int, **more: object) -> Thread:
    rows = tuple(
        StoredMessage(n + 1, "c", "assistant" if n % 2 else "user", f"text {n}", state="complete")
        for n in range(count)
    )
    return replace(Thread("c", rows=rows), **more)  # type: ignore[arg-type]


def test_a_new_turn_leaves_the_others_as_they_are() -> None:
    tab = Tab()
    tab.show(thread(400))
    tab.show(thread(402, writing=402))
    tab.show(thread(402))
    tab.show(thread(404))
    assert tab.redrawn == 1


@pytest.mark.parametrize(
    "other",
    [thread(8), thread(10, conversation="d"), thread(10, opened=frozenset({2})), Thread()],
    ids=["cut off", "another conversation", "tokens shown", "empty"],
)
def test_what_changes_above_is_drawn(other: Thread) -> None:
    tab = Tab()
    tab.show(thread(10))
    tab.show(other)
    assert tab.redrawn == 2


def test_the_part_below_does_not_grow_for_ever() -> None:
    tab = Tab()
    for count in range(2, 3 * MORE, 2):
        tab.show(thread(count))
    assert 2 <= tab.redrawn <= 4


def test_the_line_where_older_turns_were_cut_moves_without_drawing_all() -> None:
    tab = Tab()
    for count in range(100, 120, 2):
        full = thread(count)
        last = replace(full.rows[-1], request={"dropped_turns": count // 2 - 10})
        tab.show(replace(full, rows=(*full.rows[:-1], last)))
    assert tab.redrawn == 1


def test_a_tab_whose_connection_dropped_is_drawn_whole() -> None:
    sessions, tab = Sessions(), Tab()
    tab.session = sessions.get("t", "owner")
    tab.show(thread(10))
    sessions.leave("t")
    tab.session = sessions.get("t", "owner")
    tab.show(thread(12))
    assert tab.redrawn == 2
