"""Verify, Tokens and the context meter, in a real browser, over the fake engine."""

from __future__ import annotations

import threading

import pytest
from playwright.sync_api import Page, expect

from app.check import Check
from app.line import Job
from app.session import Session
from specdec.contract import Cancel, Comparison, Reply
from specdec.errors import EngineError
from tests.app.fake_engine import Script
from tests.ui.screens import on_both_screens
from tests.ui.steps import Serve, send, settled, visit

pytestmark = pytest.mark.ui


@on_both_screens
def test_a_reply_is_verified_by_a_button_and_what_differs_is_named(serve: Serve, tab: Page) -> None:
    served = serve(Script(token_s=0.005))
    visit(tab, served)
    send(tab, "hello")
    settled(tab)
    reply = tab.locator("#thread .turn.reply")
    verify = reply.get_by_role("button", name="Verify")
    verify.click()
    expect(reply.locator(".check.on")).to_contain_text("verified: identical")
    served.script.differ_at = 2
    verify.click()
    expect(reply.locator(".check.bad")).to_contain_text("differs at token 3")


def test_a_comparison_outlives_a_reload_and_can_be_stopped(
    serve: Serve, tab: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve(Script(token_s=0.005))
    go = threading.Event()

    def slow(reply: Reply, cancel: Cancel) -> Comparison:
        while not go.wait(0.02):
            if cancel.is_set():
                raise EngineError("Verify was cancelled.")
        return Comparison(True, len(reply.ids))

    monkeypatch.setattr(served.kit.engine, "verify", slow)
    visit(tab, served)
    send(tab, "hello")
    settled(tab)
    reply = tab.locator("#thread .turn.reply")
    reply.get_by_role("button", name="Verify").click()
    expect(reply.locator(".check")).to_contain_text("comparing with plain decoding")
    reply.get_by_role("button", name="Stop comparing").click()
    expect(reply.locator(".check")).to_contain_text("comparison stopped")
    reply.get_by_role("button", name="Verify").click()
    expect(reply.get_by_role("button", name="Stop comparing")).to_be_visible()
    tab.reload()
    expect(reply.get_by_role("button", name="Stop comparing")).to_be_visible()
    verifier = served.kit.controller.verifier
    running = verifier.running

    def late(session: Session) -> Job[Check] | None:
        job = running(session)
        if job is not None:
            go.set()  # it ends between drawing the page and watching it
            assert job.done.wait(20)
        return running(session)

    verifier.running = late  # type: ignore[method-assign]
    tab.reload()
    expect(reply.locator(".check.on")).to_contain_text("verified: identical")


@on_both_screens
def test_tokens_are_shown_and_the_context_meter_fills(serve: Serve, tab: Page) -> None:
    served = serve(Script(token_s=0.005))
    visit(tab, served)
    send(tab, "hello")
    settled(tab)
    reply = tab.locator("#thread .turn.reply")
    reply.get_by_role("button", name="Tokens").click()
    expect(reply.locator(".tokens .kept").nth(1)).to_be_visible()
    expect(reply.locator(".tokens .depths li").first).to_contain_text("% of")
    said = "".join(reply.locator(".tokens pre").all_inner_texts())
    assert "Every round keeps at least one token." in said
    reply.get_by_role("button", name="Tokens").click()
    expect(reply.locator(".tokens")).to_have_count(0)

    meter = tab.locator("#meter [role=meter]")
    before = int(meter.get_attribute("aria-valuenow") or 0)
    send(tab, "hello again")
    settled(tab, 2)
    expect(meter).not_to_have_attribute("aria-valuenow", str(before))
    assert int(meter.get_attribute("aria-valuenow") or 0) > before > 0
