"""What the browser tests of the page share."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.ui.conftest import Served

Serve = Callable[..., Served]


def visit(tab: Page, served: Served, query: str = "") -> None:
    tab.goto(served.url + query)
    expect(tab.locator("#message textarea")).to_be_editable()


def ready(tab: Page) -> None:
    expect(tab.locator(".pill.on, .pill.plain, .pill.warn")).to_be_visible()


def send(tab: Page, text: str) -> None:
    tab.fill("#message textarea", text)
    tab.press("#message textarea", "Enter")


def settled(tab: Page, replies: int = 1) -> None:
    expect(tab.locator("#thread .turn.reply")).to_have_count(replies)
    expect(tab.locator("#live .turn")).to_have_count(0)
    expect(tab.locator("#send")).to_be_visible()
