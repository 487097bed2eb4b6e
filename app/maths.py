"""LaTeX -> MathML, which browsers draw without scripts or fonts from elsewhere.

Knows nothing of Markdown. What cannot be converted is shown as its source.
"""

from __future__ import annotations

import re
from functools import lru_cache
from html import escape
from xml.etree import ElementTree

from latex2mathml.converter import convert

_TAGS = re.compile(
    "math|mrow|mi|mn|mo|ms|mtext|mspace|msup|msub|msubsup|mfrac|msqrt|mroot|munder|mover|munderover"
    "|mtable|mtr|mtd|mstyle|mpadded|mphantom|menclose|mmultiscripts|mprescripts"
)
_ATTRIBUTES = re.compile(
    "display|displaystyle|scriptlevel|mathvariant|stretchy|fence|form|separator|linethickness"
    "|minsize|maxsize|largeop|movablelimits|accent|accentunder|columnalign|rowspacing|columnspacing"
    "|width|height|depth|lspace|rspace|notation|columnlines|rowlines"
)
_XMLNS = re.compile(r"\{[^}]*\}")
_LINES = re.compile(
    r"\\(begin|end)\{(?:aligned|alignedat|gather|gathered|multline|eqnarray)\*?\}(\{\d\})?"
)
"""Environments of several lines that the converter lacks or runs together; `split` draws them."""


@lru_cache(maxsize=256)
def math_html(tex: str, display: bool) -> str:
    """MathML for `tex`, from listed tags and attributes only."""
    lines = _LINES.sub(r"\\\1{split}", tex)
    if "\\\\" in tex and "\\begin" not in tex:
        lines = rf"\begin{{split}}{tex}\end{{split}}"
    try:
        tree = ElementTree.fromstring(convert(lines, display="block" if display else "inline"))
    except Exception:  # the converter raises many kinds; the source is what we can show
        return f'<code class="tex">{escape(tex)}</code>'
    return _serialise(tree)


def _serialise(node: ElementTree.Element) -> str:
    tag = _XMLNS.sub("", node.tag)
    inside = escape(node.text or "") + "".join(
        _serialise(child) + escape(child.tail or "") for child in node
    )
    if not _TAGS.fullmatch(tag):
        return inside
    attributes = "".join(
        f' {name}="{escape(value, quote=True)}"'
        for name, value in node.attrib.items()
        if _ATTRIBUTES.fullmatch(name)
    )
    return f"<{tag}{attributes}>{inside}</{tag}>"
