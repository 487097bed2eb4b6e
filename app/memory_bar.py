"""What a pair takes of the memory, as one bar with its numbers. Pure functions; no gradio."""

from __future__ import annotations

from html import escape

from app import view
from specdec.contract import Memory

PARTS = (("weights", "weights"), ("draft", "draft"), ("caches", "caches"))


def bar(memory: Memory, title: str) -> str:
    """Weights, draft, caches and what stays free; told in words to who cannot see it."""
    if not memory.before:
        return ""
    whole = max(memory.before, memory.total)
    figures = [(kind, name, getattr(memory, kind)) for kind, name in PARTS]
    over = memory.total > memory.before
    words = [f"{name} {view.size(count)}" for _, name, count in figures if count]
    words.append(
        f"{view.size(memory.total - memory.before)} too much"
        if over
        else f"free {view.size(memory.free)}"
    )
    said = f"{title}: {', '.join(words)}, of {view.size(memory.before)}"
    pieces = "".join(
        f'<i class="{kind}" style="width: {100 * count / whole:.2f}%"></i>'
        for kind, _, count in figures
    )
    legend = "".join(
        f'<span class="{kind}">{escape(name)} <b>{view.size(count)}</b></span>'
        for kind, name, count in figures
        if count
    )
    rest = escape(words[-1])
    return (
        f'<div class="memory{" over" if over else ""}"><p>{escape(title)}</p>'
        f'<div class="bar" role="img" aria-label="{escape(said)}">{pieces}</div>'
        f'<div class="legend" aria-hidden="true">{legend}<span>{rest} of '
        f"{view.size(memory.before)}</span></div></div>"
    )
