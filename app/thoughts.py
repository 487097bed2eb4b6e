"""Splits a reply into what the model thought aloud and what it said. Knows nothing of HTML."""

from __future__ import annotations

import re
from dataclasses import dataclass

_OPEN = re.compile(r"\s*<(?:think|thinking|thought|reasoning)>")
_CLOSE = re.compile(r"</(?:think|thinking|thought|reasoning)>[ \t]*(?=\n|$)")
_CHANNEL = re.compile(r"analysis(?=[A-Z\"'(\d])")
_CHANNEL_END = re.compile(r"assistantfinal")
"""What is left of gpt-oss' channels when their special tokens are skipped."""
_FENCE = re.compile(r"^ {0,3}(```+|~~~+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Split:
    """`thought` is None where there is none; `open` while its closing tag has not come."""

    thought: str | None
    answer: str
    open: bool = False


def split(text: str, thinking: bool = False) -> Split:
    """Only a tag that begins the reply opens a thought; `thinking`: the prompt ended with one.

    A lone closing tag at a line's end ends a thought too: the prompt opened it, whoever made it.
    Tags inside code are text.
    """
    channel = _CHANNEL.match(text)
    opened, close = (channel, _CHANNEL_END) if channel else (_OPEN.match(text), _CLOSE)
    body = text[opened.end() :] if opened else text
    closed = next((m for m in close.finditer(body) if not _in_code(body, m.start())), None)
    if closed:
        thought = body[: closed.start()].strip()
        return Split(thought or None, body[closed.end() :].lstrip("\n"))
    if opened or thinking:
        return Split(body.strip(), "", open=True)
    return Split(None, text)


def _in_code(text: str, at: int) -> bool:
    """Inside an open fence, or after an odd number of backticks on the line."""
    if len(_FENCE.findall(text, 0, at)) % 2:
        return True
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line.count("`") % 2 == 1
