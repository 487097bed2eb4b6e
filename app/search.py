"""What a search of the conversations means: words, and the place to show. Knows no database."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left

AROUND = 42
"""Characters shown on either side of what was found."""
MOST_WORDS = 12

_MARKS = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]")


def words(query: str) -> tuple[str, ...]:
    """What is looked for: every word must be somewhere in a conversation; "in quotes" is one."""
    found = re.findall(r'"([^"]*)(?:"|$)|(\S+)', query)
    folded = (fold(quoted or single) for quoted, single in found)
    return tuple(word for word in folded if word)[:MOST_WORDS]


def fold(text: str) -> str:
    """Text as it is compared: no case, no accents, blanks as one space."""
    if text.isascii():  # most of what is searched, at every key
        return " ".join(text.lower().split())
    return " ".join(_MARKS.sub("", unicodedata.normalize("NFKD", text.casefold())).split())


def holds(text: str, word: str) -> bool:
    """Whether folded `word` is in `text`."""
    return word in fold(text)


def excerpt(text: str, word: str) -> str:
    """The place of folded `word` in `text`, on one line, as written; "" where it is not."""
    line = " ".join(text.split())
    if word not in fold(line):
        return ""
    # folding may change lengths: the shortest beginning that holds the word ends with it
    end = bisect_left(range(len(line)), True, key=lambda n: word in fold(line[:n]))
    start = max(0, end - len(word) - AROUND)
    before, after = "…" if start else "", "…" if end + AROUND < len(line) else ""
    return before + line[start : end + AROUND] + after
