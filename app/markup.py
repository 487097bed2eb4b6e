"""Model text (Markdown) -> HTML from a closed set of tags. Knows nothing of chats or pages.

Raw HTML becomes visible text, images become their source, links are http(s) or mailto, code is
escaped once. Nothing a model writes can add a tag, an attribute or a request of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from html import escape
from itertools import islice
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from app.dollars import formula_end, reads_as_prose
from app.inline import link_addresses, tick_tasks
from app.maths import math_html
from app.words import tr

_LINK = re.compile(r"(https?://|mailto:)", re.IGNORECASE)
_LINE_END = re.compile(r"\r\n|\n|\r")
_BLOCK_MATH = {"\\[": "\\]", "$$": "$$"}


@lru_cache(maxsize=512)
def to_html(text: str) -> str:
    """HTML of finished or growing Markdown; an open fence or list is closed as far as it goes."""
    return str(_markdown().render(text))


@lru_cache(maxsize=1)
def _markdown() -> MarkdownIt:
    md = MarkdownIt("commonmark", {"html": False, "breaks": True})
    md.enable(["table", "strikethrough"])
    md.validateLink = lambda url: bool(_LINK.match(url))  # type: ignore[method-assign]
    md.inline.ruler.before("escape", "math", _inline_math)
    md.block.ruler.before(
        "fence", "math_block", _block_math, {"alt": ["paragraph", "blockquote", "list"]}
    )
    md.core.ruler.push("addresses", link_addresses)
    md.core.ruler.push("tasks", tick_tasks)
    for name, rule in (
        ("image", _image),
        ("fence", _fence),
        ("code_block", _fence),
        ("math", _math),
        ("math_block", _math),
        ("link_open", _link_open),
        ("table_open", lambda *_: '<div class="table"><table>'),
        ("table_close", lambda *_: "</table></div>"),
    ):
        md.add_render_rule(name, _method(rule))
    return md


def _method(rule: Any) -> Any:
    """add_render_rule binds what it is given; our rules do not want the renderer."""
    return lambda _self, tokens, index, options, env: rule(tokens, index)


def _image(tokens: Sequence[Token], index: int) -> str:
    token = tokens[index]
    return f'<span class="no-image">![{escape(token.content)}]({escape(_source(token))})</span>'


def _source(token: Token) -> str:
    return str(token.attrs.get("src", ""))


def _link_open(tokens: Sequence[Token], index: int) -> str:
    href = escape(str(tokens[index].attrs.get("href", "")), quote=True)
    return f'<a href="{href}" target="_blank" rel="noopener noreferrer nofollow">'


def _fence(tokens: Sequence[Token], index: int) -> str:
    token = tokens[index]
    language = (token.info.split() or [""])[0]
    return (
        f'<div class="code"><div class="code-head"><span>{escape(language or "text")}</span>'
        f'<button type="button" data-act="copy-code" aria-label="{tr("Copy this code")}">'
        f"{tr('Copy')}</button></div>"
        f'<pre tabindex="0"><code>{_coloured(token.content, language)}</code></pre></div>\n'
    )


@lru_cache(maxsize=128)
def _coloured(code: str, language: str) -> str:
    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return escape(code)
    return str(highlight(code, lexer, HtmlFormatter(nowrap=True)))


def _math(tokens: Sequence[Token], index: int) -> str:
    token = tokens[index]
    return math_html(token.content, display=token.info == "block")


def _inline_math(state: StateInline, silent: bool) -> bool:
    """`\\( ... \\)`, `\\[ ... \\]` and dollars (`app.dollars`) within a paragraph."""
    if state.src[state.pos] == "$":
        return _inline_dollars(state, silent)
    opener = state.src[state.pos : state.pos + 2]
    closer = {"\\(": "\\)", "\\[": "\\]"}.get(opener)
    if closer is None:
        return False
    end = state.src.find(closer, state.pos + 2, state.posMax)
    if end < 0 or not state.src[state.pos + 2 : end].strip():
        return False
    if not silent:
        token = state.push("math", "", 0)
        token.content = state.src[state.pos + 2 : end].strip()
        token.info = "block" if opener == "\\[" else "inline"
    state.pos = end + 2
    return True


def _inline_dollars(state: StateInline, silent: bool) -> bool:
    end = formula_end(state.src, state.pos, state.posMax)
    if end is None:
        return False
    if not silent:
        double = state.src.startswith("$$", state.pos)
        token = state.push("math", "", 0)
        token.content = state.src[state.pos : end].strip("$")
        token.info = "block" if double else "inline"
    state.pos = end
    return True


def _block_math(state: StateBlock, start: int, last: int, silent: bool) -> bool:
    """A line that begins with `\\[` or `$$`, up to a line that ends with the closer."""
    if state.is_code_block(start):
        return False
    first = state.src[state.bMarks[start] + state.tShift[start] : state.eMarks[start]].strip()
    opener = first[:2]
    closer = _BLOCK_MATH.get(opener)
    if closer is None:
        return False
    for line in range(start, last):
        text = state.src[state.bMarks[line] : state.eMarks[line]].rstrip()
        if not text and opener == "$$":  # the shell's own number, not a formula
            return False
        if not text.endswith(closer) or (line == start and len(first) < 5):
            continue
        body = state.getLines(start, line + 1, state.blkIndent, False).strip()
        inner = body[2 : -len(closer)].strip()
        if opener == "$$" and ("$$" in inner or reads_as_prose(inner)):
            return False
        if silent:
            return True
        token = state.push("math_block", "", 0)
        token.content = inner
        token.info = "block"
        token.map = [start, line + 1]
        state.line = line + 1
        return bool(token.content)
    return False


class Growing:
    """HTML of text that only grows: finished top-level blocks are rendered once and kept."""

    def __init__(self) -> None:
        self._text = ""
        self._done = 0  # characters whose HTML is final
        self._html = ""
        self._before: Growing | None = None

    @property
    def before(self) -> Growing:
        """Another one, for text that stands before this one: what a model thinks aloud."""
        self._before = self._before or Growing()
        return self._before

    def to_html(self, text: str) -> str:
        """HTML of `text`; starts over when it is not a longer form of the last one."""
        if not text.startswith(self._text):
            self._done, self._html = 0, ""
        self._text = text
        md, env = _markdown(), {}  # type: ignore[var-annotated]
        tail = text[self._done :]
        tokens = md.parse(tail, env)
        last = next((i for i in range(len(tokens) - 1, -1, -1) if _opens_block(tokens[i])), 0)
        if last > 0 and tokens[last].map:
            line = tokens[last].map[0]  # type: ignore[index]
            self._html += md.renderer.render(tokens[:last], md.options, env)
            self._done += _end_of_line(tail, line)
            tokens = tokens[last:]
        return self._html + str(md.renderer.render(tokens, md.options, env))


def _end_of_line(text: str, count: int) -> int:
    """Characters of the first `count` lines, lines as Markdown has them, not as str.splitlines."""
    ends = islice(_LINE_END.finditer(text), count)
    return max((end.end() for end in ends), default=0)


def _opens_block(token: Token) -> bool:
    return token.level == 0 and token.nesting >= 0 and token.map is not None
