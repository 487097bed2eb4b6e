"""Bare addresses and task lists, as models write them."""

from __future__ import annotations

import pytest

from app.markup import Growing, to_html
from tests.app.test_markup import read


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("see https://a.b/c?d=1&e=2. Or so", ["https://a.b/c?d=1&e=2"]),
        ("(https://en.wiki/X_(y)), **http://c.d**!", ["https://en.wiki/X_(y)", "http://c.d"]),
        ("看https://a.b。", ["https://a.b"]),
        ("[x](https://a.b) <https://c.d>", ["https://a.b", "https://c.d"]),
        ("`https://a.b` http:// javascript:x ftp://y.z", []),
        ("```\nhttps://a.b\n```", []),
        ('http://h/"onclick=1', ["http://h/"]),
    ],
)
def test_addresses_become_links_and_nothing_else_does(text: str, addresses: list[str]) -> None:
    seen = read(to_html(text))
    assert [value for name, value in seen.attributes if name == "href"] == addresses


def test_a_link_is_not_made_twice() -> None:
    assert to_html("[see https://a.b](https://c.d)").count("<a ") == 1


def test_tasks_have_boxes() -> None:
    html = to_html("- [ ] one\n- [x] **two**\n- [y] no\n\n[ ] not a list")
    assert ">☐ one<" in html
    assert ">☑ <strong>two</strong><" in html
    assert html.count('class="task"') == 2
    assert "<li>[y] no" in html
    assert "<p>[ ] not a list" in html


def test_growing_text_has_them_as_well() -> None:
    growing, text = Growing(), "- [ ] https://a.b\n\nhttps://c.d/e\n\nend"
    for end in range(1, len(text) + 1):
        html = growing.to_html(text[:end])
    assert html.replace("\n", "") == to_html(text).replace("\n", "")
