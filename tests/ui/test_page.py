"""The page in a real browser, over the fake engine."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

from app.desk import Options
from app.session import Session
from specdec.contract import ErrorInfo
from tests.app.desk_kit import until
from tests.app.fake_engine import Script
from tests.ui.screens import on_both_screens
from tests.ui.steps import Serve, ready, send, settled, visit

pytestmark = pytest.mark.ui


@on_both_screens
def test_a_message_is_answered_with_figures(serve: Serve, tab: Page) -> None:
    served = serve(Script(token_s=0.01))
    visit(tab, served)
    ready(tab)
    send(tab, "hello")
    expect(tab.locator("#live .writing")).to_be_visible()
    expect(tab.locator("#live .figures")).to_contain_text("tok/s")
    settled(tab)
    reply = tab.locator("#thread .turn.reply")
    expect(reply).to_contain_text("Every round keeps at least one token.")
    for text in ("tok/s", "to first token", "tokens a round", "of drafts kept", "same words as"):
        expect(reply.locator(".figures")).to_contain_text(text)
    expect(tab.locator("#message textarea")).to_have_value("")


def test_a_message_sent_while_loading_waits_visibly_and_is_answered(
    serve: Serve, tab: Page
) -> None:
    served = serve(Script(load_s=6))
    visit(tab, served)
    send(tab, "are you there?")
    expect(tab.locator("#live .wait")).to_contain_text("answered when it is ready")
    expect(tab.locator("#live progress")).to_be_visible()
    expect(tab.locator(".pill.busy")).to_be_visible()
    tab.fill("#message textarea", "next thought")  # the box stays usable
    settled(tab)
    expect(tab.locator("#message textarea")).to_have_value("next thought")
    expect(tab.locator(".pill.on")).to_be_visible()


def test_nothing_can_be_touched_before_the_kept_values_are_there(serve: Serve, tab: Page) -> None:
    """What was written sooner would be overwritten, or sent with the defaults."""
    served = serve()
    controller = served.kit.controller
    kept, may_arrive = controller.options, threading.Event()

    def late(session: Session) -> Options:
        assert may_arrive.wait(20)
        return replace(kept(session), mode="standard", system="Be kind")

    controller.options = late  # type: ignore[method-assign]
    tab.goto(served.url)
    tab.click("#tune")
    mode = tab.get_by_role("radio", name="Standard")
    for control in (tab.locator("#message textarea"), tab.locator("#system textarea"), mode):
        expect(control).to_be_disabled()
    may_arrive.set()
    expect(tab.locator("#system textarea")).to_have_value("Be kind")
    expect(mode).to_be_checked()
    expect(mode).to_be_enabled()
    expect(tab.locator("#message textarea")).to_be_focused()


@on_both_screens
def test_stop_keeps_what_was_written(serve: Serve, tab: Page) -> None:
    served = serve(Script(token_s=0.05, reply="word " * 2000))
    visit(tab, served)
    send(tab, "go on forever")
    expect(tab.locator("#live .writing")).to_contain_text("word word")
    tab.click("#stop")
    settled(tab)
    until(lambda: served.kit.engine.running == 0)
    expect(tab.locator("#thread .turn.reply")).to_contain_text("word word")
    expect(tab.locator("#thread .turn.reply .mark")).to_have_text("stopped")


def test_the_switch_decodes_plainly(serve: Serve, tab: Page) -> None:
    served = serve()
    visit(tab, served)
    ready(tab)
    tab.get_by_text("Standard", exact=True).click()
    expect(tab.locator(".pill")).to_contain_text("standard")
    send(tab, "hello")
    settled(tab)
    assert served.kit.engine.requests[0].mode == "standard"
    expect(tab.locator("#thread .figures")).to_contain_text("plain decoding")
    tab.reload()
    expect(tab.locator("#mode label.selected")).to_have_text("Standard")


def test_conversations_are_listed_opened_and_deleted(serve: Serve, tab: Page) -> None:
    served = serve()
    visit(tab, served)
    for number, text in enumerate(("first question", "second question")):
        send(tab, text)
        settled(tab)
        expect(tab.locator("#chats li")).to_have_count(number + 1)
        if number == 0:
            tab.click("#new")
            expect(tab.locator(".welcome")).to_be_visible()
    tab.locator("#chats .open", has_text="first").click()
    expect(tab.locator("#thread .turn.user")).to_contain_text("first question")
    item = tab.locator("#chats li", has_text="second")
    item.hover()
    item.locator("[data-act=delete]").click()
    expect(tab.locator("#chats li")).to_have_count(1)
    assert len(served.kit.history.conversations()) == 1
    tab.reload()
    expect(tab.locator("#thread .turn.user")).to_contain_text("first question")


@on_both_screens
def test_edit_regenerate_and_copy(serve: Serve, tab: Page) -> None:
    served = serve()
    visit(tab, served)
    send(tab, "a question with <b>tags</b>")
    settled(tab)
    tab.locator("#thread .turn.user [data-act=copy]").click()
    assert tab.evaluate("navigator.clipboard.readText()") == "a question with <b>tags</b>"
    tab.locator("#thread .code [data-act=copy-code]").click()
    assert tab.evaluate("navigator.clipboard.readText()").startswith("def rounds(draft")
    tab.locator("#thread [data-act=regenerate]").click()
    until(lambda: len(served.kit.engine.requests) == 2)
    settled(tab)
    tab.locator("#thread .turn.user [data-act=edit]").click()
    expect(tab.locator("#message textarea")).to_have_value("a question with <b>tags</b>")
    expect(tab.locator("#notice")).to_contain_text("Editing")
    send(tab, "another question")
    expect(tab.locator("#thread .turn.user .said")).to_have_text("another question")
    settled(tab)
    assert [m.content for m in served.kit.engine.requests[-1].messages] == ["another question"]
    expect(tab.locator("#notice")).to_be_empty()


def test_a_failure_in_mid_answer_is_one_clear_line_and_a_way_on(serve: Serve, tab: Page) -> None:
    served = serve(Script(fail_after=12))
    visit(tab, served)
    send(tab, "hello")
    settled(tab)
    reply = tab.locator("#thread .turn.reply")
    expect(reply.locator(".error")).to_contain_text("ran out of memory. Send again.")
    expect(reply.locator(".mark")).to_have_text("interrupted")
    expect(reply.locator(".body")).to_contain_text("decoding lets a")
    served.script.fail_after = None
    reply.locator("[data-act=regenerate]").click()
    expect(reply.locator(".error")).to_have_count(0)
    settled(tab)


@on_both_screens
def test_race_shows_both_lanes_and_compares(serve: Serve, tab: Page) -> None:
    served = serve(Script(token_s=0.01))
    visit(tab, served)
    tab.get_by_role("tab", name="Race").click()
    tab.click("#go")
    expect(tab.locator(".lane.running")).to_be_visible()
    expect(tab.locator(".verdict .same")).to_contain_text("tokens compared, none differs")
    expect(tab.locator(".verdict .ratio b")).to_contain_text("×")
    expect(tab.locator(".lane.speculative .kept").first).to_be_visible()
    assert [r.fresh for r in served.kit.engine.requests] == [True] * 3
    served.script.differ_at = 5
    tab.click("#go")
    expect(tab.locator(".verdict .differ")).to_contain_text("Differs at token 6")


@on_both_screens
def test_models_shows_reasons_and_a_failed_load_keeps_the_conversation(
    serve: Serve, tab: Page
) -> None:
    served = serve()
    served.script.fail_load["llama-3.2-1b-instruct"] = ErrorInfo(
        "SourceError", "Llama 3.2 needs a licence.", "Accept it on the hub."
    )
    visit(tab, served)
    send(tab, "hello")
    settled(tab)
    tab.get_by_role("tab", name="Models").click()
    expect(tab.locator("#sheet")).to_contain_text("no CUDA device and no Apple GPU were found")
    expect(tab.locator("#sheet .verdict-rejected")).to_be_visible()
    tab.get_by_label("Target").click()
    tab.get_by_role("option", name="Llama 3.2").click()
    tab.click("#load")
    expect(tab.locator("#sheet .error")).to_contain_text("needs a licence. Accept it on the hub.")
    expect(tab.locator("#sheet")).to_contain_text("Still loaded: smollm2-135m-instruct")
    tab.get_by_role("tab", name="Chat").click()
    expect(tab.locator("#thread .turn.user")).to_contain_text("hello")


def test_what_is_cleared_or_deleted_is_brought_back(serve: Serve, tab: Page) -> None:
    served = serve()
    visit(tab, served)
    send(tab, "hello")
    settled(tab)
    tab.click("#clear")
    expect(tab.locator(".welcome")).to_be_visible()
    expect(tab.get_by_role("status").filter(has_text="Cleared")).to_contain_text("“hello”")
    tab.get_by_role("button", name="Undo").click()
    expect(tab.locator("#thread .turn")).to_have_count(2)
    expect(tab.locator(".toast")).to_have_count(0)
    item = tab.locator("#chats li")
    item.hover()
    item.locator("[data-act=delete]").click()
    expect(tab.locator("#chats li")).to_have_count(0)
    tab.get_by_role("button", name="Undo").press("Enter")
    expect(tab.locator("#thread .turn.user")).to_contain_text("hello")
    expect(item).to_have_count(1)


def test_regenerate_leaves_a_message_that_was_not_sent(serve: Serve, tab: Page) -> None:
    served = serve()
    visit(tab, served)
    send(tab, "hello")
    settled(tab)
    served.script.token_s = 0.02
    tab.fill("#message textarea", "half a thought")
    tab.locator("#thread [data-act=regenerate]").click()
    expect(tab.locator("#live .writing")).to_be_visible()
    settled(tab)
    expect(tab.locator("#message textarea")).to_have_value("half a thought")
