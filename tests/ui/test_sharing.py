"""The owner shares from the page, a guest comes by the link, and the owner ends it."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.app.fake_engine import Script
from tests.app.share_kit import sharing
from tests.ui.steps import send, settled

pytestmark = pytest.mark.ui


def test_the_owner_shares_sees_a_guest_and_ends_it_in_one_click(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, context: BrowserContext, tab: Page
) -> None:
    with sharing(tmp_path, monkeypatch, Script(token_s=0.002)) as served:
        tab.goto(served.url)
        expect(tab.locator("#message textarea")).to_be_editable()
        tab.click("#share")
        dialog = tab.get_by_role("dialog", name="Share this model")
        expect(dialog).to_contain_text("passes through gradio's servers")
        assert served.doors == []  # the warning comes first
        tab.click("#share-begin")
        expect(dialog).to_contain_text("https://x.example")
        tab.get_by_role("button", name="Copy all three").click()
        login = served.view().login
        assert login is not None
        copied = tab.evaluate("navigator.clipboard.readText()")
        assert copied == f"https://x.example\nName: guest\nPassword: {login.password}"
        tab.keyboard.press("Escape")
        guest = context.new_page()
        guest.goto(served.guest_url)
        guest.fill("[name=username]", login.user)
        guest.fill("[name=password]", login.password)
        guest.get_by_role("button", name="Log in").click()
        expect(guest.locator(".shared")).to_contain_text("50 messages left")
        expect(guest.locator("#share")).to_be_hidden()
        expect(tab.locator(".shared")).to_contain_text("1 guest")
        send(guest, "hello from outside")
        settled(guest)
        expect(guest.locator(".shared")).to_contain_text("49 messages left")
        tab.locator("#shared-end").click()
        expect(guest.locator(".shared")).to_have_text("Sharing has ended.")
        expect(tab.locator(".shared")).to_have_count(0)
        assert served.programs[-1].wait(5) is not None
        send(tab, "and I go on")
        settled(tab)
        assert [c.title for c in served.kit.history.conversations()] == ["and I go on"]
