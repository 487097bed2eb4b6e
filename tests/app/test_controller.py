"""Sending, stopping, queueing, storing: what happens whether or not a page watches."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from app.desk import MAX_MESSAGE, Options
from app.live import facts_from
from specdec.contract import ErrorInfo, Sampling
from specdec.errors import SettingError
from tests.app.desk_kit import Kit, finish, held, until

OPTIONS = Options(Sampling(seed=7))


def test_a_message_is_stored_before_its_first_token(kit: Kit) -> None:
    kit.script.token_s = 0.2  # the prompt is still being read
    tab = kit.owner()
    job = kit.controller.desk.send(tab, "hello", OPTIONS)
    rows = kit.history.messages(tab.conversation)
    assert [(r.role, r.content, r.state) for r in rows] == [
        ("user", "hello", "complete"),
        ("assistant", "", "partial"),
    ]
    job.stop()
    finish(job)


def test_a_reply_nobody_watches_is_stored_with_its_figures(kit: Kit) -> None:
    tab = kit.owner()
    live = finish(kit.controller.desk.send(tab, "hello", OPTIONS))
    stored = kit.history.messages(tab.conversation)[1]
    assert stored.state == "complete"
    assert stored.content == live.text
    assert stored.ids == live.ids
    assert len(stored.ids) == live.metrics.new_tokens > 50
    facts = facts_from(stored.metrics, stored.request)
    assert facts.metrics.rounds == live.metrics.rounds
    assert facts.metrics.tok_s == pytest.approx(live.metrics.tok_s, rel=0.01)
    assert (facts.mode, facts.runner, facts.exact, facts.seed) == ("speculative", "static", True, 7)
    assert (facts.target, facts.draft) == ("smollm2-135m-instruct", "ngram")
    assert stored.request["sampling"]["seed"] == 7


def test_a_growing_reply_is_stored_about_once_a_second(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.replies.SAVE_EVERY_S", 0.05)
    kit.script.token_s = 0.03
    tab = kit.owner()
    job = kit.controller.desk.send(tab, "hello", OPTIONS)
    until(lambda: kit.history.messages(tab.conversation)[1].content)
    row = kit.history.messages(tab.conversation)[1]
    assert row.state == "partial"
    assert not job.done.is_set()
    job.stop()


def test_the_first_words_are_stored_at_once(kit: Kit) -> None:
    """Else a program killed within a second of them would lose a reply that had been seen."""
    gate = held(kit)
    tab = kit.owner()
    job = kit.controller.desk.send(tab, "hello", OPTIONS)
    until(lambda: job.snapshot.text)
    until(lambda: kit.history.messages(tab.conversation)[1].content, timeout=0.5)
    job.stop()
    gate.set()
    finish(job)


def test_stop_ends_within_one_round_and_keeps_the_text(kit: Kit) -> None:
    gate = held(kit)
    tab = kit.owner()
    job = kit.controller.desk.send(tab, "hello", OPTIONS)
    until(lambda: job.snapshot.text)
    kit.controller.desk.stop(tab)
    gate.set()
    live = finish(job)
    assert live.reason == "cancelled"
    assert live.metrics.rounds == 1
    assert kit.engine.running == 0
    row = kit.history.messages(tab.conversation)[1]
    assert row.state == "interrupted"
    assert row.content == live.text != ""


def test_a_closed_tab_stops_the_engine_and_keeps_what_was_written(tmp_path: Path) -> None:
    kit = Kit(tmp_path, linger=0.0)
    kit.script.token_s = 0.02
    tab = kit.owner()
    job = kit.controller.desk.send(tab, "hello", OPTIONS)
    until(lambda: job.snapshot.text)
    kit.controller.leave("tab")
    live = finish(job, 3)
    assert live.reason == "cancelled"
    row = kit.history.messages(tab.conversation)[1]
    assert row.content == live.text
    assert row.state == "interrupted"
    kit.close()


def test_a_reload_or_another_tab_keeps_the_reply_going(tmp_path: Path) -> None:
    kit = Kit(tmp_path, linger=0.05)
    kit.script.token_s = 0.01
    job = kit.controller.desk.send(kit.owner(), "hello", OPTIONS)
    kit.controller.leave("tab")
    again = kit.owner("the same tab, reloaded")
    again.conversation = kit.history.conversations()[0].id
    assert kit.controller.desk.active(again) is job
    assert finish(job).reason == "end"
    kit.close()


def test_a_message_sent_while_loading_waits_with_the_phase(kit: Kit) -> None:
    kit.script.load_s = 0.8
    kit.controller.start()
    job = kit.controller.desk.send(kit.owner(), "hello", OPTIONS)
    until(lambda: (at := kit.controller.live(job).phase) is not None and at.name == "fetching")
    seen = kit.controller.live(job)
    assert seen.stage == "loading"
    assert seen.phase is not None
    assert seen.phase.total > 0
    assert finish(job).reason == "end"


def test_a_message_loads_the_pair_when_nothing_is_loaded(kit: Kit) -> None:
    assert finish(kit.controller.desk.send(kit.owner(), "hello", OPTIONS)).reason == "end"
    assert kit.engine.loads == [(None, None)]


def test_a_failure_midway_is_kept_as_interrupted(kit: Kit) -> None:
    kit.script.fail_after = 10
    tab = kit.owner()
    live = finish(kit.controller.desk.send(tab, "hello", OPTIONS))
    assert live.error is not None
    row = kit.history.messages(tab.conversation)[1]
    assert row.state == "interrupted"
    assert row.content
    assert facts_from(row.metrics, row.request).error == live.error
    kit.script.fail_after = None
    assert finish(kit.controller.desk.send(tab, "go on", OPTIONS)).reason == "end"


def test_a_failure_before_the_first_word_leaves_no_empty_turn_in_the_prompt(kit: Kit) -> None:
    kit.script.fail_start = ErrorInfo("PromptError", "The conversation is too long.", "Shorten it.")
    tab = kit.owner()
    finish(kit.controller.desk.send(tab, "first", OPTIONS))
    assert kit.history.messages(tab.conversation)[1].state == "failed"
    kit.script.fail_start = None
    finish(kit.controller.desk.send(tab, "second", OPTIONS))
    (message,) = kit.engine.requests[-1].messages
    assert message.content == "first\n\nsecond"


def test_an_engine_that_vanishes_is_an_error_with_a_way_on(kit: Kit) -> None:
    kit.script.die = True
    live = finish(kit.controller.desk.send(kit.owner(), "hello", OPTIONS))
    assert live.error is not None
    assert "again" in live.error.hint
    kit.script.die = False
    assert finish(kit.controller.desk.send(kit.owner(), "hello", OPTIONS)).reason == "end"


def test_a_history_that_fails_is_said_and_the_reply_goes_on(kit: Kit) -> None:
    gate = held(kit)
    job = kit.controller.desk.send(kit.owner(), "hello", OPTIONS)
    until(lambda: job.snapshot.text)
    kit.history.close()
    gate.set()
    live = finish(job)
    assert live.reason == "end"
    assert "could not be stored" in live.notices[-1]


def test_a_reply_goes_back_into_the_prompt_with_its_own_ids(kit: Kit) -> None:
    tab = kit.owner()
    live = finish(
        kit.controller.desk.send(tab, "one", Options(Sampling(seed=7), system="Be brief"))
    )
    finish(kit.controller.desk.send(tab, "two", Options(Sampling(seed=7), system="Be brief")))
    request = kit.engine.requests[-1]
    assert [m.role for m in request.messages] == ["system", "user", "assistant", "user"]
    assert request.messages[2].ids == live.ids
    assert request.conversation == tab.conversation


def test_empty_and_giant_messages_are_refused(kit: Kit) -> None:
    for text in ("", "  \n", "x" * (MAX_MESSAGE + 1)):
        with pytest.raises(SettingError):
            kit.controller.desk.send(kit.owner(), text, OPTIONS)
    assert kit.history.conversations() == []


def test_watching_shows_at_most_13_updates_a_second_and_always_the_end(kit: Kit) -> None:
    kit.script.token_s = 0.004
    kit.script.reply = "word " * 200

    async def look() -> tuple[int, str, float]:
        job = kit.controller.desk.send(kit.owner(), "hello", Options(mode="standard"))
        began, seen, text = time.monotonic(), 0, ""
        async for live in kit.controller.watch(job):
            seen, text = seen + 1, live.text
        return seen, text, time.monotonic() - began

    seen, text, took = asyncio.run(look())
    assert text == "word " * 200
    assert 5 <= seen <= 13 * took + 2


def test_leaving_the_watch_does_not_end_the_reply(kit: Kit) -> None:
    kit.script.token_s = 0.005

    async def glance() -> None:
        async for live in kit.controller.watch(job):
            if live.text:
                return

    job = kit.controller.desk.send(kit.owner(), "hello", OPTIONS)
    asyncio.run(glance())
    assert finish(job).reason == "end"


@pytest.mark.parametrize("how", ["clear", "delete"])
def test_what_is_deleted_serves_no_later_draft(kit: Kit, how: str) -> None:
    owner = kit.owner()
    finish(kit.controller.desk.send(owner, "hello", OPTIONS))
    conversation = owner.conversation
    assert kit.engine.requests[-1].conversation == conversation
    if how == "clear":
        kit.controller.deleting.clear(owner)
    else:
        kit.controller.deleting.delete(owner, conversation)
    assert kit.engine.forgotten == [conversation]
