"""What Markdown of today has beyond CommonMark: bare addresses are links, `[x]` is a tick.

Rules for markdown-it; they change tokens and write no HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from markdown_it.rules_core import StateCore
from markdown_it.token import Token

_ADDRESS = re.compile(
    r"(?<![A-Za-z0-9])https?://[^\s<>\"`]*[^\s<>\"`.,:;!?'*_~|。，、；：！？）」]", re.IGNORECASE
)
_TASK = re.compile(r"\[([ xX])\] ")


def link_addresses(state: StateCore) -> None:
    """Addresses in running text become links; code and what is a link already stay."""
    for block in state.tokens:
        if block.type != "inline" or "://" not in block.content:
            continue
        inside = 0
        children: list[Token] = []
        for token in block.children or []:
            inside += token.nesting if token.type in ("link_open", "link_close") else 0
            plain = token.type == "text" and not inside
            children += _linked(token) if plain else [token]
        block.children = children


def _linked(token: Token) -> Iterator[Token]:
    at = 0
    for found in _ADDRESS.finditer(token.content):
        address = _balanced(found[0])
        yield _text(token, token.content[at : found.start()])
        yield Token("link_open", "a", 1, attrs={"href": address}, level=token.level)
        yield _text(token, address)
        yield Token("link_close", "a", -1, level=token.level)
        at = found.start() + len(address)
    yield _text(token, token.content[at:])


def _text(like: Token, content: str) -> Token:
    return Token("text", "", 0, content=content, level=like.level)


def _balanced(address: str) -> str:
    """Without brackets at its end that it did not open: `(see https://x.y)`."""
    while address[-1:] in (")", "]") and address.count(address[-1]) > address.count(
        "(" if address[-1] == ")" else "["
    ):
        address = address[:-1]
    return address


def tick_tasks(state: StateCore) -> None:
    """`[ ] ` and `[x] ` that begin a list item become an empty and a ticked box."""
    for item, paragraph, inline in zip(
        state.tokens, state.tokens[1:], state.tokens[2:], strict=False
    ):
        if (item.type, paragraph.type) != ("list_item_open", "paragraph_open"):
            continue
        task, children = _TASK.match(inline.content), inline.children
        if task and children and children[0].type == "text":
            box = "☐" if task[1] == " " else "☑"
            children[0].content = f"{box} {children[0].content[task.end() :]}"
            item.attrSet("class", "task")
