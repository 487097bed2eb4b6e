"""Text files and the count before sending, as a person sees them."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.ui.steps import Serve, ready, send, settled, visit

pytestmark = pytest.mark.ui

NOTES = "We met on <b>Tuesday</b>.\n"
FILES = [
    {"name": "notes.txt", "mimeType": "text/plain", "buffer": NOTES.encode()},
    {"name": "plan.md", "mimeType": "text/markdown", "buffer": b"# Plan\n"},
    {"name": "photo.jpg", "mimeType": "image/jpeg", "buffer": b"\xff\xd8\xff\xe0\0"},
]
DROP = """(area) => {
  const data = new DataTransfer();
  data.items.add(new File(["dropped words"], "dropped.txt", {type: "text/plain"}));
  area.dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true}));
}"""


def test_files_are_attached_removed_sent_folded_copied_and_edited(serve: Serve, tab: Page) -> None:
    served = serve()
    visit(tab, served)
    ready(tab)
    tab.locator("#clip input").set_input_files(FILES)  # type: ignore[arg-type]
    chips = tab.locator("#files li")
    expect(chips).to_have_count(2)
    expect(tab.locator("#notice")).to_contain_text("photo.jpg is a picture, not text.")
    tab.get_by_role("button", name="Remove plan.md").click()
    tab.locator("#message textarea").evaluate(DROP)
    expect(tab.get_by_role("button", name="Remove dropped.txt")).to_be_visible()
    expect(chips).to_have_text([re.compile(r"notes\.txt 26 B · \d+ tokens"), re.compile("dropped")])
    send(tab, "When?")
    settled(tab)
    expect(chips).to_have_count(0)

    turn = tab.locator("#thread .turn.user")
    expect(turn.locator(".said")).to_have_text("When?")
    expect(turn.locator("pre").first).to_be_hidden()
    turn.locator("summary").first.click()
    expect(turn.locator("pre").first).to_have_text(NOTES)
    turn.locator("[data-act=copy]").click()
    copied = tab.evaluate("navigator.clipboard.readText()")
    assert copied == served.kit.engine.requests[0].messages[-1].content
    assert copied.startswith(f"File: notes.txt\n\n```\n{NOTES}```\n\nFile: dropped.txt")

    turn.locator("[data-act=edit]").click()
    expect(chips).to_have_count(2)
    tab.get_by_role("button", name="Remove notes.txt").click()
    expect(chips).to_have_count(1)
    send(tab, "What?")
    expect(turn.locator(".said")).to_have_text("What?")
    settled(tab)
    expect(turn.locator("summary")).to_have_count(1)

    tab.fill("#message textarea", "And now?")
    tab.locator("#clip input").set_input_files(FILES[1:2])  # type: ignore[arg-type]
    tab.press("#message textarea", "Enter")  # while the file is on its way
    settled(tab, 2)
    last = served.kit.engine.requests[-1].messages[-1].content
    assert last == "File: plan.md\n\n```\n# Plan\n```\n\nAnd now?"


def test_the_meter_counts_what_is_being_written_and_warns(serve: Serve, tab: Page) -> None:
    served = serve()
    visit(tab, served)
    ready(tab)
    send(tab, "one " * 1500)
    settled(tab)
    used = tab.locator("#meter .context").inner_text()
    tab.fill("#message textarea", "two " * 1500)
    expect(tab.locator("#meter .planned")).not_to_have_text(used)
    expect(tab.locator("#fit")).to_contain_text(
        "With this message the oldest question and its reply do not fit and will be left out."
    )
    tab.fill("#message textarea", "two " * 4000)
    expect(tab.locator("#fit")).to_contain_text("This message is too long")
    served.script.dropped_turns = 1
    send(tab, "two")
    settled(tab, 2)
    expect(tab.locator("#fit")).to_be_empty()
    for _ in range(2):
        expect(tab.locator(".cut")).to_contain_text("The 2 messages above did not fit")
        expect(tab.locator(".turn.reply .note")).to_contain_text("were left out")
        tab.reload()
