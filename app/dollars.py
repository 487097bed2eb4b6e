"""Whether a dollar begins a formula. Prices, shell variables and patterns stay as they are.

Knows nothing of Markdown or MathML. When in doubt a dollar is a dollar: a formula shown as its
source can still be read, a price that became one cannot.
"""

from __future__ import annotations

import re

_BEFORE = re.compile(r"[\s(\[{\"'*_,;:|—–-]")
"""What may stand before the first mark, as may all that is not ASCII: Chinese has no spaces."""
_AFTER = re.compile(r"[\w({$]", re.ASCII)
"""What may not follow the last one: `$5-$10`, `$A:$B`, `$x${y}`, `$(date)$(id)`."""
_NAMED = re.compile(r"\\(?:text|mathrm|textbf|textit|operatorname|mbox)\s*\{[^{}]*\}|\\[A-Za-z]+")
_PROSE = re.compile(
    r"[A-Za-z]{3,}[,.;:!?)]* | [(]?[A-Za-z]{3,}|\b(?:or|and|to|in|is|on|at|of|per|by)\b|[.!?] [A-Z]"
)
"""A word beside a space, or one that no formula has: `$5 (or 10$)`."""


def formula_end(text: str, start: int, end: int) -> int | None:
    """Where the formula that begins with the dollar at `start` ends, its last mark included.

    None where none does. `$$` is a mark as well as `$`. Looks no further than `end`.
    """
    mark = "$$" if text.startswith("$$", start) else "$"
    before = text[start - 1 : start]
    if before and before.isascii() and not _BEFORE.match(before):
        return None
    inner = start + len(mark)
    last = _next_dollar(text, inner, end)
    if last is None or not text.startswith(mark, last) or last + len(mark) > end:
        return None
    stop = last + len(mark)
    if stop < end and _AFTER.match(text[stop]):
        return None
    return stop if _is_formula(text[inner:last]) else None


def reads_as_prose(tex: str) -> bool:
    """Whether this is a sentence between two dollars and no formula."""
    return bool(_PROSE.search(_NAMED.sub("", tex)))


def _is_formula(tex: str) -> bool:
    spaced = tex[:1].isspace() or tex[-1:].isspace()
    return bool(tex) and not spaced and "`" not in tex and not reads_as_prose(tex)


def _next_dollar(text: str, at: int, end: int) -> int | None:
    """The next dollar that no backslash makes a plain one."""
    while (at := text.find("$", at, end)) >= 0:
        if text[at - 1] != "\\":
            return at
        at += 1
    return None
