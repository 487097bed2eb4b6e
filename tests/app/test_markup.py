"""Model text never becomes a tag, an attribute or a request of its own; code is shown as it is."""

from __future__ import annotations

import random
from html import escape
from html.parser import HTMLParser

import pytest

from app.markup import Growing, to_html
from app.maths import math_html
from app.thoughts import split

HOSTILE = (
    "<script>alert(1)</script>",
    "<style>body{display:none}</style>",
    "<img src=x onerror=alert(1)>",
    "text <b onclick=alert(1)>bold</b> <form action=http://h><input></form>",
    "![r](http://h/x.png)",
    '![a"onerror="x](http://h/x.png "t\\"onload=1")',
    "[click](javascript:alert(1)) [d](data:text/html;base64,x) [f](file:///etc/passwd)",
    "<http://h/a?b=<img>>",
    "[x]: http://h 'y\" onmouseover=alert(1) '\n\n[x]",
    "```html\"><img src=x>\n<div>\n```",
    "| a |\n|---|\n| <iframe src=//h> |",
    "\\(\\text{<img src=x onerror=1>}\\) $$\\href{javascript:alert(1)}{x}$$",
    "$$\\style{background:url(http://h)}{x}$$",
    "<!-- c --> <![CDATA[x]]> <?php x ?> &lt;script&gt;",
    "# <svg/onload=alert(1)>\n> <math href=x>\n- <a href=//h>x</a>",
)  # fmt: skip
TAGS = frozenset(
    (
        "p", "br", "strong", "em", "s", "code", "pre", "span", "div", "button", "a", "ul", "ol",
        "li", "blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "table", "thead", "tbody",
        "tr", "th", "td", "math", "mrow", "mi", "mn", "mo", "mtext", "msup", "msub", "mfrac",
        "msubsup", "mstyle", "msqrt",
    )
)  # fmt: skip
ATTRIBUTES = frozenset(
    (
        "class", "type", "data-act", "aria-label", "tabindex", "href", "target", "rel", "start",
        "style", "display", "title", "linethickness", "stretchy", "fence", "form",
    )
)  # fmt: skip


class Reader(HTMLParser):
    """Collects tags, attributes and visible text as a browser would see them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    return reader


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_adds_no_tag_attribute_or_address(text: str) -> None:
    seen = read(to_html(text))
    assert set(seen.tags) <= TAGS
    for name, value in seen.attributes:
        assert name in ATTRIBUTES
        assert name != "style" or value in (
            "text-align:left",
            "text-align:center",
            "text-align:right",
        )
        assert name != "href" or (value or "").startswith(("http://", "https://", "mailto:"))


def test_the_same_holds_for_any_mixture_of_them() -> None:
    dice = random.Random(5)
    for _ in range(300):
        parts = [dice.choice(HOSTILE)[dice.randrange(6) :] for _ in range(4)]
        seen = read(to_html(dice.choice(("", "\n", "\n\n", "```\n", "`")).join(parts)))
        assert set(seen.tags) <= TAGS
        assert {name for name, _ in seen.attributes} <= ATTRIBUTES


def test_raw_html_and_images_are_visible_text() -> None:
    text = "<style>b{}</style> <b>x</b> and ![cat](http://h/c.png)"
    assert read(to_html(text)).text.strip() == text


def test_a_link_does_not_tell_where_it_was_clicked() -> None:
    html = to_html("[a](https://x.y/?q=1&r=2)")
    assert 'rel="noopener noreferrer nofollow"' in html
    assert 'href="https://x.y/?q=1&amp;r=2"' in html


@pytest.mark.parametrize("fence", ["html", "", "nosuchlanguage", "python"])
def test_fenced_code_is_escaped_exactly_once(fence: str) -> None:
    code = 'a = "<div>&amp;</div>"  # \\(x\\) $5 & $HOME\n'
    html = to_html(f"```{fence}\n{code}```")
    assert code in read(html).text
    assert "&amp;amp;amp;" not in html


def test_dollars_stay_dollars() -> None:
    text = "It costs $5, not $10. Run echo $HOME && kill $$ then $$ again, or $x_1 too."
    assert read(to_html(text)).text.strip() == text
    shell = "export A=$1; echo ${A} $((1+2)) \\$5"
    assert shell in read(to_html(f"```sh\n{shell}\n```")).text


@pytest.mark.parametrize(
    ("text", "display"),
    [
        ("so \\(a_1 * b^2\\) is", "inline"),
        ("\\[\nx\n= y\n\\]", "block"),
        ("$$E = mc^2$$", "block"),
        ("$$\nE = mc^2\n$$", "block"),
        ("- \\[x^2\\]", "block"),
    ],
)
def test_formulas_between_their_marks_become_mathml(text: str, display: str) -> None:
    assert f'<math display="{display}">' in to_html(text)


def test_a_formula_that_cannot_be_read_is_its_source() -> None:
    for tex in ("x^", "a_b_c", "\\text{<img src=x>}"):
        assert math_html(tex, False) == f'<code class="tex">{escape(tex)}</code>'
    assert "math" not in to_html("an open \\[ mark")


def test_growing_text_ends_as_the_whole_does() -> None:
    text = (
        "# Title\n\nOne *two*\nthree\n\n- a\n- b\n\n  more\n\n1. x\n2. y\n\n```py\nx = 1\n\ny = 2\n"
        "```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> quote\n> on\n\n\\[\nx\n\\]\n\nEnd `code`\n"
    )
    for step in (1, 3, 17):
        growing = Growing()
        for end in range(step, len(text), step):
            growing.to_html(text[:end])
        assert growing.to_html(text).replace("\n", "") == to_html(text).replace("\n", "")
    assert growing.to_html("another") == to_html("another")


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x0b", "\x0c", "\x85", "\x1c", "\r\n", "\r"])
def test_growing_text_is_not_doubled_by_other_line_marks(mark: str) -> None:
    """Python counts more line ends than Markdown does."""
    text = f"one{mark}two\n\nthree{mark}four{mark}five\n\n- a{mark}b\n\nsix\n\nseven"
    growing = Growing()
    for end in range(1, len(text)):
        growing.to_html(text[:end])
        assert growing.to_html(text[:end]).replace("\n", "") == to_html(text[:end]).replace(
            "\n", ""
        )
    assert growing.to_html(text).count("six") == 1
    assert growing.to_html(text).replace("\n", "") == to_html(text).replace("\n", "")


def test_growing_renders_finished_blocks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    growing, seen = Growing(), []
    growing.to_html("first paragraph\n\nsecond")
    from app import markup

    parse = markup._markdown().parse
    monkeypatch.setattr(markup._markdown(), "parse", lambda t, e: seen.append(t) or parse(t, e))
    growing.to_html("first paragraph\n\nsecond one")
    assert seen == ["second one"]


@pytest.mark.parametrize(
    ("text", "thought", "answer", "open_"),
    [
        ("plain", None, "plain", False),
        ("<think>hm", "hm", "", True),
        ("<think>\nhm\n</think>\n\nyes", "hm", "yes", False),
        ("hm\n</think>\n\nyes", "hm", "yes", False),  # the template opened it (B05)
        ("<think>\n\n</think>\n\nyes", None, "yes", False),
        ("write `</think>` to close", None, "write `</think>` to close", False),
        ("```xml\n</think>\n```\nx", None, "```xml\n</think>\n```\nx", False),
        ("say <think> inside", None, "say <think> inside", False),
    ],
)
def test_thoughts_are_split_from_the_answer(
    text: str, thought: str | None, answer: str, open_: bool
) -> None:
    found = split(text)
    assert (found.thought, found.answer, found.open) == (thought, answer, open_)
