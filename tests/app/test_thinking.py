"""What a model thinks aloud: shown folded, from its first word, and never fed back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app import bubbles
from app.chats import Thread
from app.desk import Options
from app.live import Live, facts_of, fold
from app.markup import Growing
from app.records import StoredMessage
from app.transcript import prompt_of
from specdec.contract import Round, Sampling, Started
from tests.app.desk_kit import Kit, finish

STARTED = Started(9, 0)


def reply(text: str, thinking: bool = False, **request: object) -> StoredMessage:
    return StoredMessage(2, "c", "assistant", text, request={"thinking": thinking, **request})


def written(text: str, thinking: bool = False) -> Live:
    live = fold(Live(), replace(STARTED, thinking=thinking))
    return fold(live, Round((1,), text, (), 0, 0, 0.1, 1, 0.1))


@pytest.mark.parametrize(
    "first", ["<", "<think", "<think>", "<think>\n", "<think>Hm", "analysisWe"]
)
def test_a_bubble_is_never_empty_while_a_model_thinks(first: str) -> None:
    html = bubbles.live(written(first), Growing())
    assert ("Thinking</summary>" in html) or "&lt;" in html
    assert "<think" not in html


def test_a_thought_that_the_template_began_is_a_thought_from_its_first_word() -> None:
    growing = Growing()
    html = bubbles.live(written("Let me", thinking=True), growing)
    assert "<summary>Thinking</summary><div><p>Let me</p>" in html
    html = bubbles.live(written("Let me see.\n</think>\n\nIt is", thinking=True), growing)
    assert "<summary>Thought</summary><div><p>Let me see.</p>" in html
    assert "<p>It is</p>" in html
    assert "think&gt;" not in html
    assert facts_of(written("x", thinking=True)).thinking


def test_a_thought_that_was_cut_is_no_answer() -> None:
    html = bubbles.reply(reply("Let me", thinking=True))
    assert "Thought, not finished</summary>" in html


def test_copy_takes_the_answer_as_it_was_written() -> None:
    html = bubbles.reply(reply("<think>\nhm\n</think>\n\n    x = 1\n\ty"))
    assert '<span class="source" hidden>    x = 1\n\ty</span>' in html
    assert ">&lt;think&gt;hm</span>" in bubbles.reply(reply("<think>hm"))


@pytest.mark.parametrize(
    ("text", "thinking", "fed"),
    [
        ("<think>\nhm\n</think>\n\nyes", False, "yes"),
        ("hm\n</think>\n\nyes", True, "yes"),
        ("hm, never ended", True, None),
        ("analysisWe muse.assistantfinalYes.", False, "Yes."),
        ("analysis of this", False, "analysis of this"),
        ("plain", False, "plain"),
    ],
)
def test_a_thought_is_not_fed_back(text: str, thinking: bool, fed: str | None) -> None:
    rows = (
        StoredMessage(1, "c", "user", "q"),
        replace(reply(text, thinking), ids=(1, 2)),
        StoredMessage(3, "c", "user", "so?"),
    )
    said = [m for m in prompt_of(rows, "") if m.role == "assistant"]
    assert [m.content for m in said] == ([] if fed is None else [fed])
    assert all(m.ids == (1, 2) for m in said)
    assert prompt_of(rows[:2], "")[-1].content == text  # a reply that is gone on with keeps it


def test_what_the_engine_gets_of_a_thinking_model(kit: Kit) -> None:
    kit.script.reply = "<think>so many words</think>\n\nYes."
    tab = kit.owner()
    for text in ("one", "two"):
        finish(kit.controller.desk.send(tab, text, Options(Sampling(seed=1))))
    assert kit.history.messages(tab.conversation)[1].content == kit.script.reply  # kept, shown
    assert [m.content for m in kit.engine.requests[-1].messages] == ["one", "Yes.", "two"]


def test_a_notice_that_every_reply_has_is_told_once() -> None:
    said = "This model takes no system prompt."
    rows = tuple(
        replace(reply("words", notices=[said, *more]), id=number)
        for number, more in enumerate(([], [], ["Another."], []))
    )
    html = bubbles.thread(Thread("c", rows=rows))
    assert html.count(said) == 1
    assert html.count("Another.") == 1
    assert said not in bubbles.live(written("x"), Growing(), (said,))
    live = fold(Live(), replace(STARTED, notice=said))
    assert said in bubbles.live(live, Growing())
    assert said not in bubbles.live(live, Growing(), (said,))
