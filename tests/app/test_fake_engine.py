"""The fake keeps the contract, or the page's tests prove nothing."""

from __future__ import annotations

import threading

from specdec.contract import ChatRequest, Failed, Finished, Loaded, Message, NeverCancel, Round
from tests.app.fake_engine import FakeEngine, Script

ASK = ChatRequest((Message("user", "hello there"),))


def test_load_ends_in_one_loaded() -> None:
    engine = FakeEngine()
    events = list(engine.load())
    assert isinstance(events[-1], Loaded)
    assert sum(isinstance(e, Loaded | Failed) for e in events) == 1
    assert engine.status().state == "ready"


def test_rounds_add_up_to_the_reply_in_both_modes() -> None:
    engine = FakeEngine()
    texts = set()
    for mode in ("speculative", "standard"):
        events = list(engine.stream(ChatRequest(ASK.messages, mode=mode), NeverCancel()))
        rounds = [e for e in events if isinstance(e, Round)]
        end = events[-1]
        assert isinstance(end, Finished)
        assert "".join(r.text for r in rounds) == end.text
        assert sum((r.ids for r in rounds), ()) == end.ids
        assert sum(r.accepted for r in rounds) == end.metrics.accepted <= end.metrics.drafted
        texts.add(end.text)
    assert len(texts) == 1


def test_cancel_ends_within_one_round() -> None:
    engine, cancel = FakeEngine(), threading.Event()
    seen = 0
    for event in engine.stream(ASK, cancel):
        if isinstance(event, Round):
            seen += 1
            cancel.set()
    assert seen == 1
    assert isinstance(event, Finished)
    assert event.reason == "cancelled"
    assert engine.running == 0


def test_failure_on_demand() -> None:
    engine = FakeEngine(Script(fail_after=10))
    assert isinstance(list(engine.stream(ASK, NeverCancel()))[-1], Failed)
