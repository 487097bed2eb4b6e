"""Attached files as HTML: chips beside the box, and folded into a message that was sent."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from app import view
from app.attachments import Attachment, attachments_of
from app.fit import Fit
from app.records import StoredMessage
from app.words import tr, tr_n


def chips(files: Sequence[tuple[int, Attachment]]) -> str:
    """What will go with the next message; the number removes it."""
    items = "".join(
        f'<li data-id="{number}"><b>{escape(file.name)}</b> <small>{_size(file)}</small>'
        f'<button type="button" data-act="detach" aria-label="{_remove(file)}"'
        f' title="{tr("Remove")}">✕</button></li>'
        for number, file in files
    )
    return f'<ul class="files" aria-label="{tr("Attached files")}">{items}</ul>' if items else ""


def sent(row: StoredMessage) -> str:
    """A message's files, each folded, then its words."""
    files = "".join(
        f'<details class="file"><summary><b>{escape(file.name)}</b> <small>{_size(file)}</small>'
        f"</summary><pre>{escape(file.text)}</pre></details>"
        for file in attachments_of(row.request)
    )
    words = f'<div class="said">{escape(row.content)}</div>' if row.content or not files else ""
    return files + words


def meter(now: Fit) -> str:
    """What the context would come to with the message in the box."""
    share = min(100, round(100 * now.tokens / now.context))
    used, whole = f"{now.tokens:,}", f"{now.context:,}"
    short = tr("{used} of {all} tokens", used=used, all=whole)
    what = tr("{used} of {all} tokens of context with this message", used=used, all=whole)
    name = tr("Context with this message")
    tight = " tight" if now.tokens > now.limit or share >= 85 else ""
    return (
        f'<div class="context planned{tight}" role="meter" aria-label="{name}" '
        f'aria-valuemin="0" aria-valuemax="{now.context}" '
        f'aria-valuenow="{min(now.tokens, now.context)}" aria-valuetext="{what}" title="{what}">'
        f'<span>{short}</span><div class="bar"><i style="width: {share}%"></i></div></div>'
    )


def warning(now: Fit) -> str:
    """What sending it would leave out, or why it cannot be sent; nothing where all fits."""
    if not now.fits:
        long = tr(
            "This message is too long: it takes {n} tokens with its system prompt, {limit} fit.",
            n=f"{now.tokens:,}",
            limit=f"{now.limit:,}",
        )
        hint = tr("Shorten it, or load a model with a longer context.")
        return f'<p class="error" role="status"><b>{long}</b> {hint}</p>'
    if not now.dropped:
        return ""
    what = tr_n(
        "With this message the oldest question and its reply do not fit and will be left out.",
        "With this message the {n} oldest questions and their replies do not fit and will be "
        "left out.",
        now.dropped,
    )
    return f'<p class="note" role="status">{what}</p>'


def _remove(file: Attachment) -> str:
    return escape(tr("Remove {name}", name=file.name))


def _size(file: Attachment) -> str:
    if file.tokens is None:
        return view.size(file.size)
    tokens = tr_n("{n} token", "{n} tokens", file.tokens)
    return f"{view.size(file.size)} · {tokens}"
