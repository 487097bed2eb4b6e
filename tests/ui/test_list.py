"""The list of conversations in a real browser: found again, kept on top, saved as files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.ui.steps import Serve, visit

pytestmark = pytest.mark.ui


def test_conversations_are_searched_pinned_and_saved(serve: Serve, tab: Page) -> None:
    served = serve()
    history = served.kit.history
    for title, text in (("Birds", "what do wrens eat"), ("Cats", "why do they purr")):
        chat = history.create(title)
        history.add_turn(chat.id, text)
    visit(tab, served)
    titles = tab.locator("#chats .open")
    expect(titles).to_have_text(["Cats", "Birds"])
    tab.get_by_placeholder("Search").fill("WREN")
    expect(titles).to_have_count(1)
    expect(titles).to_contain_text("what do wrens eat")
    titles.click()
    expect(tab.locator("#thread .turn.user")).to_contain_text("wrens")
    expect(titles).to_have_count(1)  # the search stays while one looks at what it found
    tab.get_by_placeholder("Search").fill("nobody said this")
    expect(tab.locator("#chats")).to_contain_text("No conversation holds these words")
    tab.get_by_placeholder("Search").fill("")
    expect(titles).to_have_text(["Cats", "Birds"])

    birds = tab.locator("#chats li", has_text="Birds")
    birds.hover()
    birds.get_by_role("button", name="Pin Birds").click()
    expect(titles).to_have_text(["Birds", "Cats"])
    tab.reload()
    expect(titles).to_have_text(["Birds", "Cats"])
    birds.hover()
    with tab.expect_download() as markdown:
        birds.get_by_role("link", name="Save Birds as Markdown").click()
    assert markdown.value.suggested_filename == "birds.md"
    assert "what do wrens eat" in Path(markdown.value.path()).read_text()
    birds.hover()
    with tab.expect_download() as saved:
        birds.get_by_role("link", name="Save Birds as JSON").click()
    row = json.loads(Path(saved.value.path()).read_text())
    assert (row["title"], row["pinned"]) == ("Birds", True)

    row["title"] = "Birds again"
    tab.set_input_files(
        "[data-import]", {"name": "x.json", "mimeType": "", "buffer": json.dumps(row).encode()}
    )
    expect(tab.locator("#chats li.current")).to_contain_text("Birds again")
    expect(tab.locator("#thread .turn.user")).to_contain_text("wrens")
    tab.on("dialog", lambda dialog: dialog.accept())
    with tab.expect_event("dialog") as refused:
        tab.set_input_files("[data-import]", {"name": "x", "mimeType": "", "buffer": b"{}"})
    assert "no conversation saved by this program" in refused.value.message
