"""One contract suite for the engine in this process, the one over the pipe, and the fake."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from specdec.contract import (
    ChatEngine,
    ChatRequest,
    Failed,
    Finished,
    Loaded,
    Message,
    NeverCancel,
    Notice,
    Queued,
    Round,
    Started,
)
from specdec.engine import LocalEngine
from specdec.options import EngineOptions
from specdec.process import ProcessEngine
from tests.app.fake_engine import FakeEngine, Script
from tests.specdec.engines import Folders, ask, make_folders, of_kind, reply


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return make_folders(tmp_path_factory.mktemp("engines"))


@pytest.fixture(scope="module", params=["local", "process", "fake"])
def engine(request: pytest.FixtureRequest, folders: Folders) -> Iterator[ChatEngine]:
    made: ChatEngine
    if request.param == "fake":
        made = FakeEngine(Script(token_s=0.002))
        pair = next(m.id for m in made.models()), "ngram"
    else:
        kind = {"local": LocalEngine, "process": ProcessEngine}[request.param]
        made = kind(EngineOptions(folders.data, offline=True, device="cpu"))
        pair = str(folders.target), str(folders.draft)
    events = list(made.load(*pair))
    assert isinstance(events[-1], Loaded), events[-1]
    yield made
    made.close()
    made.close()


def test_a_stream_starts_goes_in_rounds_and_ends_once(engine: ChatEngine) -> None:
    events, last = reply(engine, ask("hello there"))
    assert len(of_kind(events, Started)) == 1
    rounds = of_kind(events, Round)
    assert tuple(i for r in rounds for i in r.ids) == last.ids
    assert "".join(r.text for r in rounds) == last.text
    assert last.metrics.new_tokens == len(last.ids)
    assert last.metrics.accepted <= last.metrics.drafted
    assert last.reason in ("end", "stop", "length", "context")


def test_the_same_seed_gives_the_same_words_in_both_modes(engine: ChatEngine) -> None:
    _, one = reply(engine, ask("tell me", mode="speculative", fresh=True))
    events, two = reply(engine, ask("tell me", mode="standard", fresh=True))
    assert one.ids == two.ids
    assert of_kind(events, Notice) == []
    assert two.metrics.drafted == 0


@pytest.mark.parametrize("mode", ["speculative", "standard"])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_reply_goes_on_from_its_ids_as_though_never_stopped(
    engine: ChatEngine, mode: str, temperature: float
) -> None:
    asked = ask("go on", mode=mode, temperature=temperature, max_tokens=60, runner="static")
    events, whole = reply(engine, asked)
    started = of_kind(events, Started)[0]
    for cut in (1, 7, len(whole.ids) - 1):
        sampling = replace(asked.sampling, max_tokens=60 - cut)
        more = replace(asked, sampling=sampling, begun=whole.ids[:cut], prompt=started.prompt)
        events, joined = reply(engine, more)
        assert (joined.ids, joined.text, joined.reason) == (whole.ids, whole.text, whole.reason)
        rounds = of_kind(events, Round)
        assert tuple(i for r in rounds for i in r.ids) == whole.ids[cut:]
        begun = of_kind(events, Started)[0].begun
        assert begun + "".join(r.text for r in rounds) == whole.text
        assert joined.metrics.new_tokens == len(whole.ids) - cut
        assert rounds[-1].new_tokens == len(whole.ids) - cut


def test_a_fresh_seed_is_reported_and_repeats_the_reply(engine: ChatEngine) -> None:
    events, first = reply(engine, ask("again", seed=None))
    seed = of_kind(events, Started)[0].seed
    _, second = reply(engine, ask("again", seed=seed))
    assert second.ids == first.ids


def test_a_cancel_keeps_what_was_said(engine: ChatEngine) -> None:
    flag = threading.Event()
    events = []
    for event in engine.stream(ask("long", max_tokens=2000), flag):
        events.append(event)
        if len(of_kind(events, Round)) == 2:
            flag.set()
    last = events[-1]
    assert isinstance(last, Finished)
    assert last.reason in ("cancelled", "end")
    assert last.text == "".join(r.text for r in of_kind(events, Round))


def test_closing_a_stream_frees_the_engine(engine: ChatEngine) -> None:
    stream = engine.stream(ask("long", max_tokens=2000), NeverCancel())
    for event in stream:
        if isinstance(event, Round):
            break
    stream.close()  # type: ignore[attr-defined]
    reply(engine, ask("next"))


def long_request(engine: ChatEngine) -> ChatRequest:
    """One whose reply goes on for a while: a tiny model may end its turn at once."""
    for seed in range(20):
        request = ask("one", max_tokens=1500, seed=seed, mode="standard")
        if reply(engine, request)[1].metrics.new_tokens > 150:
            return request
    pytest.fail("no seed gives a long reply")


def test_a_second_reply_waits_in_the_queue_and_is_made(engine: ChatEngine) -> None:
    first = engine.stream(long_request(engine), NeverCancel())
    for event in first:
        if isinstance(event, Round):
            break
    seen: list[object] = []
    began = threading.Event()

    def second() -> None:
        for event in engine.stream(ask("two"), NeverCancel()):
            seen.append(event)
            began.set()

    thread = threading.Thread(target=second)
    thread.start()
    began.wait(5)
    rest = list(first)
    thread.join(30)
    assert isinstance(rest[-1], Finished)
    assert isinstance(seen[-1], Finished)
    assert isinstance(seen[0], Queued)
    assert engine.status().queue == 0


def test_settings_that_cannot_be_are_one_failed_event(engine: ChatEngine) -> None:
    bad = ask("x", messages=())
    events = list(engine.stream(bad, NeverCancel()))
    assert isinstance(events[-1], Failed)
    assert events[-1].error.message
    reply(engine, ask("still alive"))


def test_status_names_the_pair_and_why(engine: ChatEngine) -> None:
    status = engine.status()
    assert status.state == "ready"
    assert status.pair is not None
    for choice in (status.pair.target, status.pair.draft, status.pair.device, status.pair.runner):
        assert choice.value
        assert choice.reason


def test_models_and_token_counts_are_answered(engine: ChatEngine) -> None:
    assert {"smollm2-135m-instruct"} <= {m.id for m in engine.models()}
    few = engine.count_tokens([Message("user", "hi")])
    more = engine.count_tokens([Message("user", "hi " * 50)])
    assert 0 < few < more


def test_a_failed_load_is_an_event_with_a_hint(engine: ChatEngine, tmp_path: Path) -> None:
    if isinstance(engine, FakeEngine):
        pytest.skip("the fake fails on demand, see its own tests")
    before = engine.status().pair
    events = list(engine.load("no-such-model", None))
    assert isinstance(events[-1], Failed)
    assert events[-1].error.kind == "UnknownModelError"
    assert engine.status().state == "failed"
    assert before is not None
    assert isinstance(list(engine.load(before.target.value, before.draft.value))[-1], Loaded)


def test_a_conversation_can_be_forgotten_at_any_time(engine: ChatEngine) -> None:
    engine.forget("never heard of")
    events = engine.stream(ask("tell me", remember=True, conversation="one"), NeverCancel())
    first = next(event for event in events if isinstance(event, Round))
    engine.forget("one")
    rest = list(events)
    assert first.ids
    assert isinstance(rest[-1], Finished)
    engine.forget("one")


def test_what_is_remembered_changes_no_word(engine: ChatEngine) -> None:
    request = ask("tell me again", remember=True, conversation="two")
    replies = [reply(engine, request)[1].ids for _ in range(3)]
    engine.forget("two")
    assert replies.count(replies[0]) == 3
