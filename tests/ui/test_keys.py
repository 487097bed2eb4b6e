"""Keys: stop, search, and the list of them."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.app.desk_kit import until
from tests.app.fake_engine import Script
from tests.ui.steps import Serve, send, settled, visit

pytestmark = pytest.mark.ui


def test_keys_stop_a_reply_search_and_say_what_they_do(serve: Serve, tab: Page) -> None:
    served = serve(Script(token_s=0.05, reply="word " * 2000))
    visit(tab, served)
    send(tab, "go on forever")
    expect(tab.locator("#live .writing")).to_contain_text("word word")
    expect(tab.locator("#stop")).to_be_visible()
    tab.keyboard.press("Escape")
    settled(tab)
    until(lambda: served.kit.engine.running == 0)
    expect(tab.locator("#thread .turn.reply .mark")).to_have_text("stopped")

    tab.keyboard.press("?")  # the message box has the focus: it is a letter there
    expect(tab.locator("#keys")).to_have_count(0)
    tab.locator("#thread").click()
    tab.keyboard.press("?")
    expect(tab.locator("#keys")).to_contain_text("Search the conversations")
    tab.keyboard.press("Escape")
    expect(tab.locator("#keys")).to_be_hidden()
    tab.get_by_role("button", name="Keys ?").click()  # who does not know the key finds the list
    expect(tab.locator("#keys")).to_be_visible()
    tab.keyboard.press("Escape")

    tab.locator("#history .toggle-button").click()
    tab.keyboard.press("Control+k")
    expect(tab.get_by_placeholder("Search")).to_be_focused()
    tab.keyboard.type("forever")
    expect(tab.locator("#chats .open")).to_have_count(1)
