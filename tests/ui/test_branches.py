"""Versions and stopped replies in a real browser: walked by keyboard, there after a reload."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.app.desk_kit import held
from tests.ui.steps import Serve, ready, send, settled, visit

pytestmark = pytest.mark.ui


def test_an_edited_message_keeps_its_first_version(serve: Serve, tab: Page) -> None:
    served = serve()
    visit(tab, served)
    ready(tab)
    send(tab, "what do wrens eat")
    settled(tab)
    asked = tab.locator("#thread .turn.user .said")
    tab.locator("#thread .turn.user").get_by_role("button", name="Edit").click()
    expect(tab.locator("#message textarea")).to_have_value("what do wrens eat")
    expect(tab.locator("#notice")).to_contain_text("what follows it are kept")
    send(tab, "what do robins eat")
    settled(tab)
    versions = tab.get_by_role("group", name="Version 2 of 2")
    expect(versions).to_contain_text("2/2")
    expect(versions.get_by_role("button", name="next")).to_be_disabled()

    versions.get_by_role("button", name="previous").focus()
    tab.keyboard.press("Enter")
    expect(asked).to_have_text("what do wrens eat")
    forward = tab.get_by_role("group", name="Version 1 of 2").get_by_role("button", name="next")
    expect(forward).to_be_focused()  # the way back is under the finger
    tab.reload()
    expect(asked).to_have_text("what do wrens eat")
    tab.get_by_role("group", name="Version 1 of 2").get_by_role("button", name="next").click()
    expect(asked).to_have_text("what do robins eat")


def test_a_reply_edited_by_hand_says_so_and_keeps_the_models(serve: Serve, tab: Page) -> None:
    served = serve()
    visit(tab, served)
    ready(tab)
    tab.get_by_role("button", name="rainbow").click()  # an example, with nothing typed yet
    expect(tab.locator("#message textarea")).to_be_focused()
    tab.press("#message textarea", "Enter")
    settled(tab)
    reply = tab.locator("#thread .turn.reply")
    expect(reply.get_by_role("button", name="Verify")).to_be_visible()
    reply.get_by_role("button", name="Edit").click()
    expect(tab.locator("#notice")).to_contain_text("Nothing is generated")
    send(tab, "My **own** words.")
    expect(reply).to_contain_text("My own words.")
    expect(reply).to_contain_text("edited by hand")
    expect(reply.get_by_role("button", name="Verify")).to_have_count(0)
    tab.reload()
    expect(reply).to_contain_text("edited by hand")
    tab.get_by_role("group", name="Version 2 of 2").get_by_role("button", name="previous").click()
    expect(reply).to_contain_text("Every round keeps at least one token.")
    expect(reply.get_by_role("button", name="Verify")).to_be_visible()


def test_a_stopped_reply_is_continued(serve: Serve, tab: Page) -> None:
    served = serve()
    gate = held(served.kit)
    visit(tab, served)
    ready(tab)
    send(tab, "tell me")
    expect(tab.locator("#live")).to_contain_text("Speculative")
    tab.click("#stop")
    gate.set()
    settled(tab)
    reply = tab.locator("#thread .turn.reply")
    expect(reply).to_contain_text("stopped")
    reply.get_by_role("button", name="Continue").click()
    expect(reply).to_contain_text("Every round keeps at least one token.")
    settled(tab)
    expect(reply).not_to_contain_text("stopped")
    expect(reply.get_by_role("button", name="Continue")).to_have_count(0)
    reply.get_by_role("button", name="Verify").click()
    expect(reply.locator(".check.on")).to_contain_text("identical")
