"""The page's words in the user's language.

The English text stands where it is shown, inside `tr`, `tr_n` or `marked`, and is the key of a
catalogue (gettext's, in `assets/locale`); `scripts/words` gathers all of it in `specdec.pot`, the
one file a translator starts from. gettext picks the language by LANGUAGE or LANG, and English
without one.
"""

from __future__ import annotations

import gettext
from functools import cache
from pathlib import Path
from typing import Any

LOCALE = Path(__file__).resolve().parents[1] / "assets" / "locale"


def tr(text: str, /, **values: Any) -> str:
    """`text` in the user's language, with its `{name}` fields filled in."""
    there = catalogue().gettext(text) if text else ""  # gettext keeps its header under ""
    return there.format(**values) if values else there


def tr_n(one: str, more: str, n: int, /, **values: Any) -> str:
    """`one` or `more` by the language's rule for `n`, which is the field `{n}` of both."""
    return catalogue().ngettext(one, more, n).format(n=f"{n:,}", **values)


def english(text: str, /, **values: Any) -> str:
    """What `tr` says in English, for the terminal."""
    return text.format(**values) if values else text


def marked(text: str) -> str:
    """`text` itself, for a table that is read before a language is chosen: `tr` it where shown."""
    return text


@cache
def catalogue() -> gettext.NullTranslations:
    """The catalogue found when it is first asked for; one that changes nothing without any."""
    return gettext.translation("specdec", LOCALE, fallback=True)
