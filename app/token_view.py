"""A reply's text by where each token came from, and acceptance by depth, as HTML."""

from __future__ import annotations

from html import escape

from app.trace import Made, depths, read
from app.words import marked, tr

WORDS = {
    "kept": marked("drafted and kept"),
    "corrected": marked("the target's own, where it refused a draft"),
    "bonus": marked("the target's own, after a draft kept whole or none at all"),
}


def token_view(text: str, stored: str) -> str:
    """ "" where nothing is known of the reply's rounds, or they are of another text."""
    rounds = read(stored)
    if not rounds or sum(n for made in rounds for _, n in made.spans) != len(text):
        return ""
    return (
        f'<div class="tokens"><div class="legend">{_legend()}</div>'
        f"<pre>{_rounds(text, rounds)}</pre>{_plot(rounds)}</div>"
    )


def _legend() -> str:
    marks = "".join(
        f'<span><i class="{kind}">a</i> {tr(words)}</span>' for kind, words in WORDS.items()
    )
    return f"{marks}<span><i class='turn-mark'></i> {tr('a round begins')}</span>"


def _rounds(text: str, rounds: tuple[Made, ...]) -> str:
    at, out = 0, []
    for made in rounds:
        inside = ""
        for kind, length in made.spans:
            inside += f'<i class="{kind}">{escape(text[at : at + length])}</i>'
            at += length
        if inside:
            title = tr("{kept} of {all} drafted tokens kept", kept=made.accepted, all=made.drafted)
            out.append(f'<span title="{title}">{inside}</span>')
    return "".join(out)


def _plot(rounds: tuple[Made, ...]) -> str:
    """A bar a depth; the figures stand beside, for whoever cannot see bars."""
    rows = "".join(
        f"<li><span>{depth}</span><progress max='1' value='{kept / tried:.3f}'></progress>"
        f"<span>{tr('{part} of {all}', part=f'{kept / tried:.0%}', all=tried)}</span></li>"
        for depth, (tried, kept) in enumerate(depths(rounds), 1)
        if tried
    )
    title = tr("Kept, by place in the draft")
    return f'<h4>{title}</h4><ol class="depths">{rows}</ol>' if rows else ""
