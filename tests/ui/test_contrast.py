"""Every text of the page can be read by weak eyes: WCAG AA, both themes, all tabs."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.app.fake_engine import Script
from tests.ui.steps import Serve, send, settled, visit

pytestmark = pytest.mark.ui

LOOK = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")
REPLY = (
    "# Title\n\n[link](https://x.y) **b** `code` $x$ ~~s~~\n\n> quote\n\n"
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n```python\nclass A:\n    # why\n    x: int = 1\n"
    '    def f(self) -> str:\n        return f"{self.x} \\n" or None\n```\n\n```diff\n-a\n+b\n```\n'
    '\n```html\n<p class="x">&amp;</p><!-- c -->\n```\n'
)


def test_all_text_can_be_read_in_both_themes(serve: Serve, tab: Page) -> None:
    served = serve(Script(reply=REPLY, notice="Something to know."))
    looked: dict[str, int] = {}
    short: list[str] = []

    def look(place: str) -> None:
        for theme in ("light", "dark"):
            tab.evaluate(f"document.body.classList.toggle('dark', {str(theme == 'dark').lower()})")
            found = tab.evaluate(LOOK)
            looked[f"{place}, {theme}"] = found["count"]
            short.extend(f"{place}, {theme}: {line}" for line in found["short"])

    visit(tab, served)
    tab.add_style_tag(content="* { transition: none !important; }")  # colours do not fade
    look("empty")
    send(tab, "<b>hello</b>")
    settled(tab)
    served.script.differ_at, served.script.fail_after = 3, 9
    for name in ("Verify", "Tokens"):
        tab.locator("#thread .turn.reply").get_by_role("button", name=name).click()
    expect(tab.locator(".check.bad, .tokens")).to_have_count(2)
    send(tab, "again")
    settled(tab, 2)
    tab.click("#tune")
    look("chat")
    tab.locator("#drawer .toggle-button").click()
    served.script.fail_after = None
    tab.get_by_role("tab", name="Race").click()
    tab.click("#go")
    expect(tab.locator(".verdict .differ")).to_be_visible()
    look("race")
    tab.get_by_role("tab", name="Models").click()
    tab.wait_for_timeout(300)
    look("models")
    assert min(looked.values()) > 10
    assert not short, "\n".join(short)
