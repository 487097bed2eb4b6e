"""What docs/drafters.md shows: figures that exist, are small, and can be read on light and dark."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "drafters.md"
FIGURES = sorted((ROOT / "assets" / "figures").glob("*.svg"))
SVG = "{http://www.w3.org/2000/svg}"
ALLOWED = {"svg", "style", "defs", "marker", "path", "rect", "text"}


@pytest.mark.parametrize("path", FIGURES, ids=lambda path: path.name)
def test_a_figure_is_small_plain_and_has_two_sets_of_colours(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.encode()) < 4096
    root = ElementTree.fromstring(text)
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= ALLOWED
    assert "prefers-color-scheme:dark" in text
    assert root.get("aria-label")
    assert root.get("viewBox", "").startswith("0 0 640 ")


def test_every_figure_and_link_of_the_page_is_there() -> None:
    text = PAGE.read_text(encoding="utf-8")
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text)]
    named = re.findall(r"`((?:specdec|tests|docs|assets)/[\w./-]+)`", text)
    assert [one for one in links if not (PAGE.parent / one).exists()] == []
    assert [one for one in named if not (ROOT / one).exists()] == []
    shown = {(PAGE.parent / link).resolve() for link in links if link.endswith(".svg")}
    assert shown == set(FIGURES)
    assert len(shown) == 6


def test_what_the_page_says_of_auto_is_what_the_code_does() -> None:
    from specdec.auto_drafting import MOST
    from specdec.drafters.scouting import LOOK, REST, SHARE

    text = PAGE.read_text(encoding="utf-8")
    assert MOST == 2
    assert "n-grams and at most two others" in text
    assert f"not asked for {REST} rounds" in text
    assert LOOK == 2
    assert "most two tokens" in text
    assert f"out of {SHARE:.0%}".replace("%", " %") in text


def test_a_figure_that_was_not_measured_says_so() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("## Measured")[2]
    rows = re.findall(r"^\| (?!drafter)(.*) \|$", table, re.MULTILINE)
    assert len(rows) >= 8
    for line in rows:
        speed = line.split("|")[3].strip()
        assert speed == "not measured yet" or float(speed) > 0
