"""A public link in words and HTML: the warning before it, what to hand out, what is left of it.

Pure; knows no gradio.
"""

from __future__ import annotations

from html import escape

from app.bubbles import error
from app.guests import GuestLimits
from app.sharing import ShareView

WARNING = (
    "Anyone who has the link and the password can chat with the model on this computer.",
    "Their replies are made by your processor and memory. Yours come first; theirs wait.",
    "The traffic passes through gradio's servers, which could read it.",
    "Guests see no conversations of yours, keep none here, and cannot load models.",
)


def sheet(view: ShareView) -> str:
    """The dialog's text in each state."""
    if view.state == "opening":
        return '<p role="status">Making the link. This can take half a minute.</p>'
    if view.state == "on":
        return _handout(view)
    rows = "".join(f"<li>{escape(text)}</li>" for text in WARNING)
    notice = f'<p class="note" role="status">{escape(view.notice)}</p>' if view.notice else ""
    failed = error(view.error) if view.error else ""
    return f'<div class="share-text">{failed}{notice}<ul>{rows}</ul></div>'


def strip(view: ShareView) -> str:
    """The line that every tab of the owner shows while it is shared."""
    if view.state == "off":
        return ""
    if view.state == "opening":
        return '<div class="shared" role="status"><b>Making a public link</b></div>'
    return (
        f'<div class="shared" role="status"><b>Shared</b><span>{people(view.guests)}</span>'
        f"<span>{left(view.left)}</span></div>"
    )


ENDED = '<div class="shared" role="status"><b>Sharing has ended.</b></div>'


def guest_strip(messages: int | None, seconds: float | None) -> str:
    """What a guest sees of the limits; nothing where there are none."""
    parts = []
    if messages is not None:
        parts.append(f"{messages} {'message' if messages == 1 else 'messages'} left")
    if seconds is not None:
        parts.append(left(seconds))
    if not parts:
        return ""
    spans = "".join(f"<span>{part}</span>" for part in parts)
    return f'<div class="shared" role="status"><b>You are a guest</b>{spans}</div>'


def printed(view: ShareView) -> str:
    """The same for the terminal."""
    if view.state != "on" or view.login is None:
        return str(view.error) if view.error else view.notice
    lines = [
        f"Public link: {view.link}",
        f"Login for guests: {view.login.user} / {view.login.password}",
        f"For other programs, by that link: {view.link}/v1, API key {view.key}",
        *WARNING,
        f"{left(view.left)}; it ends with this program, or when you end it on the page.",
    ]
    return "\n".join(lines)


def left(seconds: float) -> str:
    """7 h 59 min left; the last minute is named as such."""
    hours, minutes = divmod(int(seconds // 60), 60)
    if not hours:
        return f"{minutes} min left" if minutes else "under a minute left"
    return f"{hours} h {minutes} min left" if minutes else f"{hours} h left"


def people(count: int) -> str:
    """How many are here."""
    return {0: "no guests", 1: "1 guest"}.get(count, f"{count} guests")


def bounds(limits: GuestLimits) -> str:
    """The limits in one line."""
    named = (
        (limits.guests, "guests at once"),
        (limits.turns, "messages each"),
        (limits.reply_tokens, "tokens a reply"),
        (limits.tokens, "tokens in all"),
    )
    return " · ".join(f"{value:,} {name}" for value, name in named if value is not None)


def _handout(view: ShareView) -> str:
    assert view.login is not None
    text = f"{view.link}\nName: {view.login.user}\nPassword: {view.login.password}"
    rows = "".join(
        f"<dt>{name}</dt><dd>{escape(value)}</dd>"
        for name, value in (
            ("Link", view.link), ("Name", view.login.user), ("Password", view.login.password),
        )
    )  # fmt: skip
    tokens = f" of {view.limits.tokens:,}" if view.limits.tokens else ""
    return (
        f'<div class="share-text"><div class="handout" data-id="share"><dl>{rows}</dl>'
        f'<span class="source" hidden>{escape(text)}</span>'
        '<button type="button" data-act="copy">Copy all three</button></div>'
        f'<p class="quiet" role="status">{people(view.guests)} · {left(view.left)} · '
        f"{view.used:,}{tokens} tokens used</p>"
        f'<p class="quiet">{escape(bounds(view.limits))}</p>'
        f"<details><summary>For other programs</summary><dl><dt>Address</dt>"
        f"<dd>{escape(view.link)}/v1</dd><dt>API key</dt><dd>{escape(view.key)}</dd></dl>"
        "</details></div>"
    )
