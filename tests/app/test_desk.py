"""The queue as the desk sees it: one reply at a time, room for a few, nothing blocked."""

from __future__ import annotations

import pytest

from app.desk import Options
from app.line import WAITING
from app.live import facts_from
from specdec.contract import ErrorInfo, Sampling
from specdec.errors import BusyError
from tests.app.desk_kit import Kit, finish, held, until

OPTIONS = Options(Sampling(seed=7))


def test_stop_before_its_turn_takes_it_out_of_the_queue(kit: Kit) -> None:
    gate = held(kit)
    first, second = kit.owner("one"), kit.owner("two")
    running = kit.controller.desk.send(first, "hello", OPTIONS)
    waiting = kit.controller.desk.send(second, "me too", OPTIONS)
    until(lambda: kit.engine.running)
    assert kit.controller.live(waiting).position == 1
    kit.controller.desk.stop(second)
    assert finish(waiting, 0.1).reason == "cancelled"
    assert kit.history.messages(second.conversation)[1].state == "interrupted"
    gate.set()
    finish(running)
    assert len(kit.engine.requests) == 1


def test_replies_of_two_tabs_are_made_one_after_the_other(kit: Kit) -> None:
    jobs = [kit.controller.desk.send(kit.owner(f"{i}"), f"message {i}", OPTIONS) for i in range(3)]
    for job in jobs:
        assert finish(job).reason == "end"
    assert [r.messages[-1].content for r in kit.engine.requests] == [
        f"message {i}" for i in range(3)
    ]


def test_a_second_message_in_the_same_conversation_is_refused(kit: Kit) -> None:
    gate = held(kit)
    tab = kit.owner()
    job = kit.controller.desk.send(tab, "hello", OPTIONS)
    with pytest.raises(BusyError):
        kit.controller.desk.send(tab, "again", OPTIONS)
    assert len(kit.history.messages(tab.conversation)) == 2
    gate.set()
    finish(job)


def test_a_full_queue_refuses_and_stores_nothing(kit: Kit) -> None:
    gate = held(kit)
    jobs = [kit.controller.desk.send(kit.owner("0"), "hello", OPTIONS)]
    until(lambda: kit.engine.running)
    jobs += [
        kit.controller.desk.send(kit.owner(f"{i}"), "hello", OPTIONS) for i in range(1, WAITING + 1)
    ]
    late = kit.owner("late")
    with pytest.raises(BusyError):
        kit.controller.desk.send(late, "hello", OPTIONS)
    assert kit.controller.thread(late).rows == ()
    assert len(kit.history.conversations()) == len(jobs)
    for job in jobs:
        job.stop()
    gate.set()
    for job in jobs:
        finish(job)


def test_a_place_lost_at_the_last_moment_does_not_block_the_conversation(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    tab = kit.owner()
    full = BusyError("8 messages already wait for an answer.", "Send this one again in a moment.")

    def taken(job: object) -> None:
        raise full

    with monkeypatch.context() as patch:
        patch.setattr(kit.controller._line, "put", taken)
        with pytest.raises(BusyError):
            kit.controller.desk.send(tab, "hello", OPTIONS)
    assert kit.controller.desk.active(tab) is None
    row = kit.history.messages(tab.conversation)[1]
    assert row.state == "failed"
    assert facts_from(row.metrics, row.request).error == ErrorInfo.of(full)
    assert finish(kit.controller.desk.regenerate(tab, OPTIONS)).reason == "end"
