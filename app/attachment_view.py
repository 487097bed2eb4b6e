"""Attached files as HTML: chips beside the box, and folded into a message that was sent."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from app import view
from app.attachments import Attachment, attachments_of
from app.fit import Fit
from app.records import StoredMessage


def chips(files: Sequence[tuple[int, Attachment]]) -> str:
    """What will go with the next message; the number removes it."""
    items = "".join(
        f'<li data-id="{number}"><b>{escape(file.name)}</b> <small>{_size(file)}</small>'
        f'<button type="button" data-act="detach" aria-label="Remove {escape(file.name)}"'
        ' title="Remove">✕</button></li>'
        for number, file in files
    )
    return f'<ul class="files" aria-label="Attached files">{items}</ul>' if items else ""


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
    short = f"{now.tokens:,} of {now.context:,} tokens"
    what = f"{short} of context with this message"
    tight = " tight" if now.tokens > now.limit or share >= 85 else ""
    return (
        f'<div class="context planned{tight}" role="meter" aria-label="Context with this message" '
        f'aria-valuemin="0" aria-valuemax="{now.context}" '
        f'aria-valuenow="{min(now.tokens, now.context)}" aria-valuetext="{what}" title="{what}">'
        f'<span>{short}</span><div class="bar"><i style="width: {share}%"></i></div></div>'
    )


def warning(now: Fit) -> str:
    """What sending it would leave out, or why it cannot be sent; nothing where all fits."""
    if not now.fits:
        return (
            f'<p class="error" role="status"><b>This message is too long: it takes '
            f"{now.tokens:,} tokens with its system prompt, {now.limit:,} fit.</b> "
            "Shorten it, or load a model with a longer context.</p>"
        )
    if not now.dropped:
        return ""
    what = (
        "the oldest question and its reply do"
        if now.dropped == 1
        else f"the {now.dropped} oldest questions and their replies do"
    )
    return (
        f'<p class="note" role="status">With this message {what} not fit and will be left out.</p>'
    )


def _size(file: Attachment) -> str:
    if file.tokens is None:
        return view.size(file.size)
    tokens = "1 token" if file.tokens == 1 else f"{file.tokens:,} tokens"
    return f"{view.size(file.size)} · {tokens}"
