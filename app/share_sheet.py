"""A public link in words and HTML: the warning before it, what to hand out, what is left of it.

Pure; knows no gradio.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from app.bubbles import error
from app.guests import GuestLimits
from app.sharing import ShareView
from app.words import english, marked, tr, tr_n

WARNING = (
    marked("Anyone who has the link and the password can chat with the model on this computer."),
    marked("Their replies are made by your processor and memory. Yours come first; theirs wait."),
    marked("The traffic passes through gradio's servers, which could read it."),
    marked("Guests see no conversations of yours, keep none here, and cannot load models."),
)


def sheet(view: ShareView) -> str:
    """The dialog's text in each state."""
    if view.state == "opening":
        return f'<p role="status">{tr("Making the link. This can take half a minute.")}</p>'
    if view.state == "on":
        return _handout(view)
    rows = "".join(f"<li>{escape(tr(text))}</li>" for text in WARNING)
    notice = f'<p class="note" role="status">{escape(view.notice)}</p>' if view.notice else ""
    failed = error(view.error) if view.error else ""
    return f'<div class="share-text">{failed}{notice}<ul>{rows}</ul></div>'


def strip(view: ShareView) -> str:
    """The line that every tab of the owner shows while it is shared."""
    if view.state == "off":
        return ""
    if view.state == "opening":
        return f'<div class="shared" role="status"><b>{tr("Making a public link")}</b></div>'
    return (
        f'<div class="shared" role="status"><b>{tr("Shared")}</b><span>{people(view.guests)}</span>'
        f"<span>{left(view.left)}</span></div>"
    )


def ended() -> str:
    """What a tab shows last."""
    return f'<div class="shared" role="status"><b>{tr("Sharing has ended.")}</b></div>'


def guest_strip(messages: int | None, seconds: float | None) -> str:
    """What a guest sees of the limits; nothing where there are none."""
    parts = []
    if messages is not None:
        parts.append(tr_n("{n} message left", "{n} messages left", messages))
    if seconds is not None:
        parts.append(left(seconds))
    if not parts:
        return ""
    spans = "".join(f"<span>{part}</span>" for part in parts)
    return f'<div class="shared" role="status"><b>{tr("You are a guest")}</b>{spans}</div>'


def printed(view: ShareView) -> str:
    """The same for the terminal."""
    if view.state != "on" or view.login is None:
        return str(view.error) if view.error else view.notice
    lines = [
        f"Public link: {view.link}",
        f"Login for guests: {view.login.user} / {view.login.password}",
        f"For other programs, by that link: {view.link}/v1, API key {view.key}",
        *WARNING,
        f"{left(view.left, english)}; it ends with this program, or when you end it on the page.",
    ]
    return "\n".join(lines)


def left(seconds: float, say: Callable[..., str] = tr) -> str:
    """7 h 59 min left; the last minute is named as such. `say` puts it into a language."""
    hours, minutes = divmod(int(seconds // 60), 60)
    if not hours:
        short = marked("under a minute left")
        return say(marked("{minutes} min left"), minutes=minutes) if minutes else say(short)
    if not minutes:
        return say(marked("{hours} h left"), hours=hours)
    return say(marked("{hours} h {minutes} min left"), hours=hours, minutes=minutes)


def people(count: int) -> str:
    """How many are here."""
    return tr_n("{n} guest", "{n} guests", count) if count else tr("no guests")


def bounds(limits: GuestLimits) -> str:
    """The limits in one line."""
    named = (
        (limits.guests, tr("guests at once")),
        (limits.turns, tr("messages each")),
        (limits.reply_tokens, tr("tokens a reply")),
        (limits.tokens, tr("tokens in all")),
    )
    return " · ".join(f"{value:,} {name}" for value, name in named if value is not None)


def _handout(view: ShareView) -> str:
    assert view.login is not None
    name, password = tr("Name"), tr("Password")
    text = f"{view.link}\n{name}: {view.login.user}\n{password}: {view.login.password}"
    rows = "".join(
        f"<dt>{term}</dt><dd>{escape(value)}</dd>"
        for term, value in (
            (tr("Link"), view.link), (name, view.login.user), (password, view.login.password),
        )
    )  # fmt: skip
    used = tr("{n} tokens used", n=f"{view.used:,}")
    if view.limits.tokens:
        all_ = f"{view.limits.tokens:,}"
        used = tr("{used} of {all} tokens used", used=f"{view.used:,}", all=all_)
    return (
        f'<div class="share-text"><div class="handout" data-id="share"><dl>{rows}</dl>'
        f'<span class="source" hidden>{escape(text)}</span>'
        f'<button type="button" data-act="copy">{tr("Copy all three")}</button></div>'
        f'<p class="quiet" role="status">{people(view.guests)} · {left(view.left)} · {used}</p>'
        f'<p class="quiet">{escape(bounds(view.limits))}</p>'
        f"<details><summary>{tr('For other programs')}</summary><dl><dt>{tr('Address')}</dt>"
        f"<dd>{escape(view.link)}/v1</dd><dt>{tr('API key')}</dt><dd>{escape(view.key)}</dd></dl>"
        "</details></div>"
    )
