"""A reply as it reaches a reader: read aloud once, folded where it was folded, never too wide."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.app.desk_kit import until
from tests.app.fake_engine import Script
from tests.ui.steps import Serve, send, settled, visit

pytestmark = pytest.mark.ui

WIDE = (
    "| Name | A long heading of words | Price | Another | More |\n|---|---|---|---|---|\n"
    "| Alphabetical | some words here | $1,000 | x | y |\n\n" + "long" * 60 + "\n\nשלום עולם\n\n"
    "```\n" + "x = 1  # " + "word " * 40 + "\n```\n\n$x^2$ costs $5\n\n" + "https://x.y/" + "a" * 90
)
LISTEN = """() => {
  window.heard = [];
  const quiet = (element) => element.closest("[aria-live=off], [aria-busy=true]");
  new MutationObserver((changes) => {
    for (const change of changes) {
      const at = change.target.nodeType === 1 ? change.target : change.target.parentElement;
      const region = at?.closest("[role=status], [role=alert], [role=log], [aria-live]");
      if (region && !quiet(at) && region.textContent.trim()) heard.push(region.textContent.trim());
    }
  }).observe(document.body, { childList: true, subtree: true, characterData: true });
}"""


def test_a_reply_is_read_aloud_once_and_a_folded_thought_stays_folded(
    serve: Serve, tab: Page
) -> None:
    said = "<think>" + "let me see " * 60 + "</think>\n\n" + "word " * 60 + "end"
    served = serve(Script(reply=said, token_s=0.02))
    visit(tab, served)
    tab.evaluate(LISTEN)
    send(tab, "hello")
    thought = tab.locator("#live .thought")
    expect(thought).to_have_attribute("open", "")
    thought.locator("summary").click()
    expect(thought).not_to_have_attribute("open", "")
    expect(thought).to_contain_text("see let me see let me see let me")
    expect(thought).not_to_have_attribute("open", "")
    settled(tab)
    until(lambda: any(text.endswith("word end") for text in tab.evaluate("heard")))
    heard = tab.evaluate("heard")
    assert sum("word word" in text for text in heard) == 1
    assert len(heard) < 8, heard


def test_nothing_in_a_reply_makes_a_phone_page_wider(serve: Serve, tab: Page) -> None:
    tab.set_viewport_size({"width": 390, "height": 844})
    served = serve(Script(reply=WIDE))
    visit(tab, served)
    send(tab, "a" * 200)
    settled(tab)
    body = tab.locator("#thread .turn.reply .body")
    assert tab.evaluate("document.documentElement.scrollWidth") == 390
    assert tab.locator("#scroller").evaluate("(e) => e.scrollWidth - e.clientWidth") == 0
    lines = body.locator("td", has_text="Alphabetical").evaluate(
        "(e) => { const all = document.createRange(); all.selectNodeContents(e);"
        " return all.getClientRects().length; }"
    )
    assert lines == 1  # a table scrolls, its words stay whole
    right = body.locator("p", has_text="שלום").evaluate(
        "(e) => { const all = document.createRange(); all.selectNodeContents(e);"
        " return e.getBoundingClientRect().right - all.getBoundingClientRect().right; }"
    )
    assert right < 2
    expect(body.locator("math")).to_have_count(1)
    expect(body.locator("a")).to_have_count(1)
