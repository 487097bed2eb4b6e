"""In another language no English is left on the page, but for what is no word of the program."""

from __future__ import annotations

import gettext
import re
from collections.abc import Sequence

import pytest
from babel.messages.pofile import read_po
from playwright.sync_api import Page, expect

from app import words
from specdec import prompt_sets
from specdec.pairing import WITHOUT_FILES
from tests.app.desk_kit import Kit
from tests.app.fake_engine import Script
from tests.ui.steps import Serve, ready, send, settled, visit

NOT_OURS = re.compile(
    r"specdec|tok/s|Reset to default value|number input for|range slider for|Toggle Sidebar"
)
"""The program's name, a unit, and gradio's own labels."""

FOUND = """() => {
  const found = [];
  const seen = (e) => e && e.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const from = walk.currentNode.parentElement;
    if (seen(from) && !from.closest("script, style, .said, .body, .source, .voice, select option"))
      found.push(walk.currentNode.data);
  }
  for (const e of document.querySelectorAll("[aria-label], [placeholder], [title]"))
    if (seen(e) && !e.closest("#pill"))
      for (const name of ["aria-label", "placeholder", "title"])
        if (e.getAttribute(name)) found.push(e.getAttribute(name));
  return found;
}"""


class Pseudo(gettext.NullTranslations):
    """Every text in brackets; `asked` has them all."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[str] = set()

    def gettext(self, message: str) -> str:
        self.asked.add(message)
        return f"⟦{message}⟧"

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        self.asked |= {msgid1, msgid2}
        return f"⟦{msgid1 if n == 1 else msgid2}⟧"


def gathered() -> set[str]:
    """What a translator finds in the file of words."""
    with (words.LOCALE / "specdec.pot").open("rb") as file:
        found = [message.id for message in read_po(file)]
    return {text for id in found for text in ([id] if isinstance(id, str) else id)}


def data(kit: Kit) -> list[str]:
    """What the registry, the prompt sets and the engine say; the longest first."""
    owner = kit.owner()
    found = [*prompt_sets.kinds(), *WITHOUT_FILES]
    found += [kind.capitalize() for kind in prompt_sets.kinds()]
    for row in kit.controller.model_shelf.rows(owner):
        found += [row.name, row.fits.reason, row.licence]
    pair = kit.controller.status().pair
    assert pair is not None
    for choice in (pair.target, pair.draft, pair.device, pair.dtype, pair.draft_dtype, pair.runner):
        found += [choice.value, choice.reason]
    for option in pair.drafts:
        found += [option.id, option.name, option.reason]
    found += pair.notices
    return sorted(filter(None, found), key=len, reverse=True)


def english(texts: list[str], known: Sequence[str] = ()) -> list[str]:
    """The texts with words that are not known and stand in no brackets; a link may part these."""
    left = []
    for text in texts:
        rest = text
        for word in known:  # a single word must be all of it: "chat" is also a word of ours
            if rest.strip() == word or re.search(r"[\s\d-]", word):
                rest = rest.replace(word, "")
        while (shorter := re.sub(r"⟦[^⟦⟧]*⟧", "", rest)) != rest:
            rest = shorter
        rest = re.sub(r"⟦[^⟦⟧]*$|^[^⟦⟧]*⟧", "", rest)
        if re.search(r"[A-Za-z]{3,}", NOT_OURS.sub("", rest)):
            left.append(text)
    return left


@pytest.mark.ui
def test_no_english_is_left_in_another_language(
    serve: Serve, tab: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    pseudo = Pseudo()
    monkeypatch.setattr(words, "catalogue", lambda: pseudo)
    served = serve(Script(reply="⟦done⟧\n\n```python\nx = 1\n```\n"))
    visit(tab, served)
    ready(tab)
    known = data(served.kit)
    left = {"at first": english(tab.evaluate(FOUND), known)}
    send(tab, "⟦hello⟧")
    settled(tab)
    tab.click("#tune")
    tab.wait_for_timeout(500)
    left["a reply and its settings"] = english(tab.evaluate(FOUND), known)
    tab.keyboard.press("Escape")
    for way in (["Race"], ["Benchmark"], ["Models"], ["Models", "All models"]):
        for name in way:
            tab.get_by_role("tab", name=f"⟦{name}⟧", exact=True).click()
        tab.wait_for_timeout(700)
        left[way[-1]] = english(tab.evaluate(FOUND), known)
    tab.get_by_role("button", name="⟦Share⟧").click()
    expect(tab.locator("dialog.sheet")).to_be_visible()
    left["sharing"] = english(tab.evaluate(FOUND), known)
    assert {place: texts for place, texts in left.items() if texts} == {}
    assert pseudo.asked - gathered() == set()


def test_a_word_that_is_not_marked_is_found() -> None:
    assert english(["⟦{a} of ⟦b⟧⟧ · 3 tok/s", "⟦Stop⟧"]) == []
    assert english(["⟦Stop⟧ now"]) == ["⟦Stop⟧ now"]
