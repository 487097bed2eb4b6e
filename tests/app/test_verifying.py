"""Verify on stored replies: the request rebuilt, the queue, stopping, and what it says."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from app import bubbles, view
from app.check import Check, made_by
from app.desk import Options
from app.records import StoredMessage
from app.verifying import Verifier
from specdec.contract import Cancel, Comparison, Reply, Sampling
from specdec.errors import BusyError, EngineError, HistoryError, SettingError
from tests.app.desk_kit import Kit, finish, held, until

SAMPLING = Sampling(temperature=0.9, top_p=0.8, stop=("zzz",), max_tokens=40)


def answered(kit: Kit, text: str = "hello", **options: Any) -> StoredMessage:
    finish(kit.controller.start())
    job = kit.controller.desk.send(kit.owner(), text, Options(SAMPLING, **options))
    assert finish(job).state in ("complete", "interrupted")
    return rows(kit)[-1]


def rows(kit: Kit) -> list[StoredMessage]:
    return kit.history.messages(kit.owner().conversation)


def shown(kit: Kit) -> Mapping[int, Check]:
    return kit.controller.thread(kit.owner()).checks


def test_a_reply_is_compared_by_the_request_that_made_it(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Reply] = []

    def verify(reply: Reply, cancel: Cancel) -> Comparison:
        asked.append(reply)
        return Comparison(True, len(reply.ids))

    monkeypatch.setattr(kit.engine, "verify", verify)
    row = answered(kit, system="Be kind")
    made = kit.engine.requests[-1]
    finish(kit.controller.desk.send(kit.owner(), "more", Options(system="Be another")))
    found = finish(kit.controller.verifier.start(kit.owner(), row.id))
    assert found == Check("done", comparison=Comparison(True, len(row.ids)))
    (reply,) = asked
    assert reply.ids == row.ids
    assert reply.reason == "length"
    assert reply.request.messages == made.messages
    assert reply.request.sampling == replace(SAMPLING, seed=1234)
    assert (reply.request.mode, reply.request.fresh) == ("standard", True)
    assert reply.request.runner == "static"
    assert shown(kit) == {row.id: found}


def test_what_it_finds_is_said_under_the_reply(kit: Kit) -> None:
    row = answered(kit)
    assert ">Verify<" in bubbles.reply(row)
    finish(kit.controller.verifier.start(kit.owner(), row.id))
    html = bubbles.thread(kit.controller.thread(kit.owner()))
    assert f"verified: identical, {len(row.ids)} tokens" in html
    kit.script.differ_at = 3
    finish(kit.controller.verifier.start(kit.owner(), row.id))
    html = bubbles.thread(kit.controller.thread(kit.owner()))
    assert "differs at token 4" in html
    assert "a tie within 0.02" in html
    assert "identical" not in html


def test_text_of_the_model_is_escaped() -> None:
    odd = Comparison(False, 1, 0, None, "<b>", "<script>")
    html = bubbles.checked(Check("done", comparison=odd))
    assert "<script>" not in html
    assert "<b>'" not in html


def test_it_waits_in_the_queue_and_can_be_stopped(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, verifier = threading.Event(), kit.controller.verifier

    def verify(reply: Reply, cancel: Cancel) -> Comparison:
        begun.set()
        until(cancel.is_set)
        raise EngineError("Verify was cancelled.")

    row = answered(kit)
    monkeypatch.setattr(kit.engine, "verify", verify)
    first = verifier.start(kit.owner(), row.id)
    assert begun.wait(5)
    assert first.snapshot.step == "comparing"
    second = verifier.start(kit.guest_with_reply(), 2)
    assert second.snapshot.step == "waiting"
    verifier.stop(kit.guest(), 2)
    assert finish(second) == Check("done")
    assert verifier.running(kit.owner()) is first
    verifier.stop(kit.owner(), row.id)
    assert finish(first) == Check("done")
    assert verifier.running(kit.owner()) is None
    assert view.check(first.snapshot).text == "comparison stopped"


def test_one_tab_cannot_stop_anothers(kit: Kit) -> None:
    row = answered(kit)
    verifier = kit.controller.verifier
    job = verifier.start(kit.owner(), row.id)
    verifier.stop(kit.guest("stranger"), row.id)
    assert not job._stopped.is_set()
    assert verifier.checks(kit.guest("stranger")) == {}
    with pytest.raises(HistoryError, match="gone"):
        verifier.start(kit.guest("stranger"), row.id)


def test_a_model_loaded_while_it_waited_is_seen(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    row = answered(kit)
    gate = held(kit)
    blocker = kit.controller.desk.send(kit.guest(), "first", Options(SAMPLING))
    until(lambda: kit.engine.running)
    job = kit.controller.verifier.start(kit.owner(), row.id)
    load = kit.controller.load(kit.owner(), "qwen2.5-coder-1.5b-instruct", None)
    gate.set()
    for one in (blocker, load):
        finish(one)
    found = finish(job)
    assert found.comparison is None
    assert "loaded is qwen2.5-coder-1.5b-instruct" in str(found.error)


@pytest.mark.parametrize("way", ["clear", "delete", "regenerate", "edit"])
def test_what_goes_ends_its_comparison(kit: Kit, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    def verify(reply: Reply, cancel: Cancel) -> Comparison:
        until(cancel.is_set)
        raise EngineError("Verify was cancelled.")

    row = answered(kit)
    monkeypatch.setattr(kit.engine, "verify", verify)
    tab, controller = kit.owner(), kit.controller
    job = controller.verifier.start(tab, row.id)
    if way == "clear":
        controller.deleting.clear(tab)
    elif way == "delete":
        controller.deleting.delete(tab, tab.conversation)
    elif way == "regenerate":
        controller.desk.regenerate(tab, Options(SAMPLING), row.id)
    else:
        controller.desk.edit(tab, row.id - 1, "other", Options(SAMPLING))
    finish(job)
    assert controller.verifier.running(tab) is None
    assert controller.verifier._jobs == {}


def test_what_was_found_stays_with_a_version_that_is_left(kit: Kit) -> None:
    row, tab = answered(kit), kit.owner()
    found = finish(kit.controller.verifier.start(tab, row.id))
    finish(kit.controller.desk.regenerate(tab, Options(SAMPLING)))
    with pytest.raises(HistoryError, match="gone"):
        kit.controller.verifier.start(tab, row.id)  # what is not shown is not compared
    kit.controller.desk.show(tab, row.id)
    assert shown(kit)[row.id] == found
    assert finish(kit.controller.verifier.start(tab, row.id)) == found


def test_a_fault_is_said(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    def verify(reply: Reply, cancel: Cancel) -> Comparison:
        raise EngineError("The engine's process ended.", "Try again.")

    row = answered(kit)
    monkeypatch.setattr(kit.engine, "verify", verify)
    found = finish(kit.controller.verifier.start(kit.owner(), row.id))
    label = view.check(found)
    assert (label.text, label.why) == ("not verified", "The engine's process ended. Try again.")


@pytest.mark.parametrize("part", ["target", "dtype", "device"])
def test_another_model_than_the_one_that_wrote_it_is_refused(kit: Kit, part: str) -> None:
    row = answered(kit)
    pair = kit.engine.status().pair
    assert pair is not None
    changed = replace(pair, **{part: replace(getattr(pair, part), value="other")})
    kit.engine._status = replace(kit.engine.status(), pair=changed)
    with pytest.raises(SettingError, match=r"by smollm2-135m-instruct in .* loaded is .*other"):
        kit.controller.verifier.start(kit.owner(), row.id)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"role": "user"}, "no words"),
        ({"ids": ()}, "no words"),
        ({"request": {"seed": 1, "sampling": {}}}, "earlier version"),
        ({"request": {"seed": 1, "sampling": {}, "system": ""}}, "cannot be read"),
        ({"request": {"seed": 1, "sampling": None, "system": ""}}, "cannot be read"),
    ],
)
def test_what_cannot_be_repeated_is_refused(kit: Kit, change: dict[str, Any], said: str) -> None:
    row = answered(kit)
    with pytest.raises(SettingError, match=said):
        made_by(rows(kit), replace(row, **change))


def test_it_is_refused_where_too_many_wait(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    row = answered(kit)

    def full(who: str) -> None:
        raise BusyError("8 messages already wait.")

    monkeypatch.setattr(kit.controller._line, "check_room", full)
    with pytest.raises(BusyError):
        kit.controller.verifier.start(kit.owner(), row.id)
    assert shown(kit) == {}


def test_the_oldest_verdicts_are_forgotten(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.verifying.KEPT", 1)
    first = answered(kit)
    second = answered(kit, "again")
    for row in (first, second):
        finish(kit.controller.verifier.start(kit.owner(), row.id))
    assert set(shown(kit)) == {second.id}


def test_a_page_sees_it_go_on(kit: Kit) -> None:
    row = answered(kit)
    verifier: Verifier = kit.controller.verifier

    async def steps() -> list[str]:
        job = verifier.start(kit.owner(), row.id)
        return [check.step async for check in verifier.watch(job)]

    assert asyncio.run(steps())[-1] == "done"
