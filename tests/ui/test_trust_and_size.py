"""Hostile text, guests and small screens, in a real browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.app.fake_engine import Script
from tests.ui.steps import Serve, ready, send, settled, visit

pytestmark = pytest.mark.ui


def test_model_text_runs_nothing_and_fetches_nothing(serve: Serve, tab: Page) -> None:
    hostile = (
        "<script>window.hit=1</script><img src=x onerror=window.hit=1>\n\n"
        "![r](http://198.51.100.1/x.png)\n\n<style>body{background:red!important}</style>\n\n"
        "{{constructor}} ${window.hit=1} `<i>` costs $5 and $10\n\n"
        "```html\n<b>&amp;</b>\n```\n"
    )
    served = serve(Script(reply=hostile))
    visit(tab, served)
    before = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    send(tab, hostile)
    settled(tab)
    body = tab.locator("#thread .turn.reply .body")
    assert tab.evaluate("window.hit") is None
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == before
    assert body.locator("img, script, style").count() == 0
    for text in ("<script>", "![r](http://198.51.100.1/x.png)", "$5 and $10", "{{constructor}}"):
        expect(body).to_contain_text(text)
    expect(body.locator("pre")).to_have_text("<b>&amp;</b>\n")


def test_a_guest_has_a_chat_and_nothing_else(serve: Serve, tab: Page) -> None:
    served = serve(shared=True)
    tab.goto(served.url)
    tab.fill("[name=username]", "you")
    tab.fill("[name=password]", "visitor-pass")
    tab.get_by_role("button", name="Log in").click()
    expect(tab.locator("#message textarea")).to_be_editable()
    ready(tab)
    send(tab, "hello from outside")
    settled(tab)
    expect(tab.get_by_role("tab", name="Models")).to_have_count(0)
    expect(tab.locator("#history")).to_be_hidden()
    assert served.kit.history.conversations() == []
    send(tab, "and again")
    settled(tab, 2)
    assert len(served.kit.engine.requests[-1].messages) == 3


def test_on_a_phone_the_list_folds_away_after_a_choice(serve: Serve, tab: Page) -> None:
    served = serve()
    tab.set_viewport_size({"width": 390, "height": 844})
    visit(tab, served)
    send(tab, "hello")
    settled(tab)
    for state in ("on", "busy", "warn", "bad"):  # the status stands below the tabs, in words
        tab.evaluate(
            "state => { document.querySelector('.pill').className = 'pill ' + state }", state
        )
        pill = tab.locator(".pill").bounding_box()
        last = tab.get_by_role("tab", name="Models").bounding_box()
        assert pill is not None
        assert last is not None
        assert last["y"] + last["height"] <= pill["y"] + 1
        assert last["x"] + last["width"] <= 390
        expect(tab.locator(".pill b")).to_be_in_viewport()
    tab.click("#history .toggle-button")
    expect(tab.locator("#history.open")).to_be_visible()
    tab.locator("#chats .open").click()
    expect(tab.locator("#history.open")).to_have_count(0)
    tab.get_by_role("tab", name="Race").click()
    box = tab.locator("#go").bounding_box()
    assert box is not None
    assert box["x"] >= 0


@pytest.mark.parametrize("width", [390, 1440])
def test_nothing_is_wider_than_the_window_and_every_control_has_a_name(
    serve: Serve, tab: Page, width: int
) -> None:
    served = serve()
    tab.set_viewport_size({"width": width, "height": 844})
    visit(tab, served)
    send(tab, "hello")
    settled(tab)
    for name in ("Chat", "Race", "Models"):
        tab.get_by_role("tab", name=name).click()
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        nameless = tab.evaluate(
            """() => [...document.querySelectorAll('button, input, textarea, select')]
            .filter(e => e.offsetParent && e.type !== 'hidden')
            .filter(e => !(e.ariaLabel || e.title || e.textContent.trim() || e.placeholder
                || [...(e.labels || [])].some(l => l.textContent.trim())
                || e.getAttribute('aria-labelledby')))
            .map(e => e.outerHTML.slice(0, 160))"""
        )
        assert nameless == []
