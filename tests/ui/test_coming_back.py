"""Replies that go on while nobody looks, and are there when somebody does again."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import Page, expect

from app.line import Job
from app.live import Live
from app.session import Session
from tests.app.desk_kit import held, until
from tests.app.fake_engine import Script
from tests.ui.steps import Serve, send, settled, visit

pytestmark = pytest.mark.ui

LONGEST_GAP = """() => {
  let last = Date.now();
  window.gap = 0;
  setInterval(() => {
    window.gap = Math.max(window.gap, Date.now() - last);
    last = Date.now();
  }, 50);
}"""
"""Milliseconds for which no script of the page ran."""


def test_a_reload_shows_the_reply_going_on(serve: Serve, tab: Page) -> None:
    served = serve()
    go = held(served.kit)
    visit(tab, served)
    send(tab, "hello")
    expect(tab.locator("#live .writing")).to_be_visible()
    until(lambda: tab.evaluate("location.search").startswith("?c="))
    tab.reload()
    expect(tab.locator("#live .writing")).to_be_visible()
    go.set()
    settled(tab)
    assert len(served.kit.engine.requests) == 1
    assert served.kit.history.messages(served.kit.history.conversations()[0].id)[1].state == (
        "complete"
    )


def test_a_tab_closed_in_mid_answer_loses_nothing(serve: Serve, tab: Page) -> None:
    served = serve()
    go = held(served.kit)
    visit(tab, served)
    send(tab, "hello")
    expect(tab.locator("#live .writing")).to_be_visible()
    other = tab.context.new_page()
    tab.goto("about:blank")
    go.set()
    visit(other, served)
    settled(other)
    expect(other.locator("#thread .turn.user")).to_contain_text("hello")


def test_a_hidden_tab_shows_all_of_it_on_return(serve: Serve, tab: Page) -> None:
    """B17: a browser freezes a tab in the background, so nothing of the page runs meanwhile.

    A headless Chromium goes on when it is told to freeze; a paused debugger stops every script.
    """
    served = serve()
    go = held(served.kit)
    visit(tab, served)
    send(tab, "hello")
    expect(tab.locator("#live .writing")).to_be_visible()
    tab.evaluate(LONGEST_GAP)
    browser = tab.context.new_cdp_session(tab)
    browser.send("Debugger.enable")
    browser.send("Debugger.pause")
    go.set()
    chat = served.kit.history.conversations()[0].id
    until(lambda: served.kit.history.messages(chat)[-1].state == "complete", 20)
    time.sleep(1)
    browser.send("Debugger.resume")
    browser.send("Debugger.disable")
    settled(tab)
    assert tab.evaluate("window.gap") > 900  # it was frozen
    expect(tab.locator("#thread .turn.reply")).to_contain_text("Every round keeps at least one")


@pytest.mark.parametrize("way", ["reload", "open"])
def test_a_reply_that_ends_while_its_turns_are_drawn_is_shown(
    serve: Serve, tab: Page, way: str
) -> None:
    """Between drawing and watching lies a trip to the browser; the landing CI once met it."""
    served = serve()
    go = held(served.kit)
    visit(tab, served)
    send(tab, "hello")
    expect(tab.locator("#live .writing")).to_be_visible()
    desk = served.kit.controller.desk
    active = desk.active

    def late(session: Session) -> Job[Live] | None:
        job = active(session)
        if job is not None:
            go.set()
            assert job.done.wait(20)
        return active(session)

    if way == "reload":
        until(lambda: tab.evaluate("location.search").startswith("?c="))
    else:
        tab.click("#new")
        expect(tab.locator(".welcome")).to_be_visible()
    desk.active = late  # type: ignore[method-assign]
    if way == "reload":
        tab.reload()
    else:
        tab.locator("#chats .open", has_text="hello").click()
    settled(tab)


def test_a_closed_tab_frees_the_engine_within_seconds(serve: Serve, tab: Page) -> None:
    served = serve(Script(token_s=0.05, reply="word " * 2000), linger=0.5)
    visit(tab, served)
    send(tab, "go on forever")
    expect(tab.locator("#live .writing")).to_be_visible()
    tab.close()
    until(lambda: served.kit.engine.running == 0, 8)
    (row,) = served.kit.history.messages(served.kit.history.conversations()[0].id)[1:]
    assert row.state == "interrupted"
    assert "word" in row.content


def test_a_reply_goes_on_while_another_conversation_is_shown(serve: Serve, tab: Page) -> None:
    served = serve()
    go = held(served.kit)
    visit(tab, served)
    tab.click("#tune")
    tab.fill("#system textarea", "Be brief")
    send(tab, "the long one")
    expect(tab.locator("#live .writing")).to_be_visible()
    tab.click("#new")
    expect(tab.locator(".welcome")).to_be_visible()
    expect(tab.locator("#live .turn")).to_have_count(0)
    tab.fill("#system textarea", "Be verbose")
    tab.wait_for_timeout(500)
    expect(tab.locator("#live .turn")).to_have_count(0)
    tab.locator("#chats .open", has_text="the long one").click()
    expect(tab.locator("#live .writing")).to_be_visible()
    expect(tab.locator("#system textarea")).to_have_value("Be brief")
    expect(tab.locator("#stop")).to_be_visible()
    go.set()
    settled(tab)
    assert len(served.kit.engine.requests) == 1
