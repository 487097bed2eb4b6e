"""What a pair takes of the memory, as one bar with its numbers. Pure functions; no gradio."""

from __future__ import annotations

from html import escape

from app import view
from app.words import marked, tr
from specdec.contract import Memory

PARTS = (
    ("weights", marked("weights")),
    ("draft", marked("draft")),
    ("caches", marked("caches")),
)


def bar(memory: Memory, title: str) -> str:
    """Weights, draft, caches and what stays free; told in words to who cannot see it."""
    if not memory.before:
        return ""
    whole = max(memory.before, memory.total)
    figures = [(kind, tr(name), getattr(memory, kind)) for kind, name in PARTS]
    over = memory.total > memory.before
    words = [f"{name} {view.size(count)}" for _, name, count in figures if count]
    words.append(
        tr("{size} too much", size=view.size(memory.total - memory.before))
        if over
        else tr("free {size}", size=view.size(memory.free))
    )
    all_ = view.size(memory.before)
    said = tr("{title}: {parts}, of {all}", title=title, parts=", ".join(words), all=all_)
    pieces = "".join(
        f'<i class="{kind}" style="width: {100 * count / whole:.2f}%"></i>'
        for kind, _, count in figures
    )
    legend = "".join(
        f'<span class="{kind}">{escape(name)} <b>{view.size(count)}</b></span>'
        for kind, name, count in figures
        if count
    )
    rest = escape(tr("{part} of {all}", part=words[-1], all=all_))
    return (
        f'<div class="memory{" over" if over else ""}"><p>{escape(title)}</p>'
        f'<div class="bar" role="img" aria-label="{escape(said)}">{pieces}</div>'
        f'<div class="legend" aria-hidden="true">{legend}<span>{rest}</span>'
        "</div></div>"
    )
