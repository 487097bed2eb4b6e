"""A conversation as HTML: turns, the reply being written, its figures. Knows no gradio, no engine.

All text passes `escape` or `markup`; buttons carry `data-act`, which assets/page.js acts on.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from app import attachment_view, view
from app.attachments import whole
from app.by_hand import MARK, by_hand
from app.chats import Thread
from app.check import Check
from app.cut import cut_of
from app.cut import line as cut_line
from app.going_on import can_go_on
from app.live import Facts, Live, facts_from, facts_of
from app.markup import Growing, to_html
from app.records import StoredMessage
from app.switch import switch
from app.thoughts import split
from app.token_view import token_view
from app.view import Label
from app.words import marked, tr
from specdec.contract import ErrorInfo

EXAMPLES = (
    marked("Explain how a rainbow forms, in three sentences."),
    marked("Write a Python function that checks whether a word is a palindrome."),
    marked("Suggest five names for a small bakery by the sea."),
)


def welcome() -> str:
    """What an empty conversation says, with questions to begin with."""
    about = tr(
        "A small draft guesses ahead, the model you chose checks every guess, and only its own "
        "words remain. Ask something and watch."
    )
    examples = "".join(
        f'<button type="button" data-fill>{escape(tr(text))}</button>' for text in EXAMPLES
    )
    return (
        f'<div class="welcome"><h1>{tr("The same model, sooner.")}</h1><p>{about}</p>'
        f'<div class="examples" role="group" aria-label="{tr("Examples")}">{examples}</div></div>'
    )


def thread(shown: Thread) -> str:
    """The stored turns; the reply being written is left to `live`."""
    return frame(shown, turns(shown))


def turns(shown: Thread) -> list[str]:
    """Each of them by itself."""
    beside = {} if shown.writing else shown.versions  # while one is written all stays as it is
    last = None if shown.writing or not shown.rows else shown.rows[-1].id
    cut = cut_of(shown.rows)
    drawn, told = [], ()  # type: tuple[list[str], tuple[str, ...]]
    for row in shown.rows:
        others = beside.get(row.id, ())
        if row.id == shown.writing:
            continue
        if row.role == "user":
            drawn.append(cut_line(cut, row.id) + user(row, others))
        else:
            check, opened = shown.checks.get(row.id), row.id in shown.opened
            unfinished = row.id == last and can_go_on(row)
            drawn.append(reply(row, check, opened, others, told, unfinished))
            told = notices(row)
    return drawn


def frame(shown: Thread, drawn: Sequence[str]) -> str:
    """Turns as one log."""
    inside = "".join(drawn) or ("" if shown.writing else welcome())
    return (
        f'<div class="thread" role="log" aria-live="off" aria-label="{tr("Conversation")}" '
        f'data-conversation="{escape(shown.conversation)}">{inside}</div>'
    )


def further(drawn: Sequence[str]) -> str:
    """Turns below such a log."""
    if not drawn:
        return ""
    return f'<div class="thread more" role="log" aria-live="polite">{"".join(drawn)}</div>'


def settled(shown: Thread, drawn: Sequence[str]) -> int:
    """How many turns will look the same when more follow: those above what the model last read."""
    cut = cut_of(shown.rows)
    above = [row.id < cut.first for row in shown.rows if row.id != shown.writing] if cut else []
    return sum(above) or len(drawn)


def user(row: StoredMessage, beside: Sequence[int] = ()) -> str:
    """What the user wrote, as written; `beside`: the ids of its versions, this one among them."""
    return (
        f'<article class="turn user" data-id="{row.id}" aria-label="{tr("You")}">'
        f"{attachment_view.sent(row)}{_source(whole(row))}"
        f"<div class='acts'>{switch(row.id, beside)}{_button('edit', tr('Edit'))}"
        f"{_button('copy', tr('Copy'))}</div></article>"
    )


def notices(row: StoredMessage) -> tuple[str, ...]:
    """What was said under a reply, and need not be said again under the next."""
    return tuple(row.request.get("notices", ()))


def reply(
    row: StoredMessage,
    check: Check | None = None,
    opened: bool = False,
    beside: Sequence[int] = (),
    told: Sequence[str] = (),
    unfinished: bool = False,
) -> str:
    """A stored reply with the figures kept with it, what Verify found of it, and its tokens.

    `unfinished`: it can go on.
    """
    facts = facts_from(row.metrics, row.request)
    state = row.state
    cut, broken = tr("interrupted"), tr("failed")
    mark = {"interrupted": cut, "partial": cut, "failed": broken}.get(state)
    if facts.reason == "cancelled":
        mark = None  # the footer says "stopped"
    if by_hand(row):
        mark = tr(MARK)
    body = _body(row.content, facts.thinking) if row.content else ""
    return (
        f'<article class="turn reply {state}" data-id="{row.id}" aria-label="{tr("Reply")}">'
        f'<div class="body">{body}</div>{_source(_said(row.content, facts.thinking))}'
        f"{error(facts.error) if facts.error else ''}{footer(facts, mark, told=told)}"
        f"{checked(check) if check else ''}{_tokens(row) if opened else ''}"
        f"<div class='acts'>{switch(row.id, beside)}"
        f"{_button('continue', tr('Continue')) if unfinished else ''}{_button('copy', tr('Copy'))}"
        f"{_button('edit', tr('Edit'))}{_button('regenerate', tr('Regenerate'))}"
        f"{_verify(row, check)}{_button('tokens', tr('Tokens')) if _traced(row) else ''}"
        "</div></article>"
    )


def checked(check: Check) -> str:
    """One line under a reply."""
    label = view.check(check)
    why = f" <span>{escape(label.why)}</span>" if label.tone == "bad" else ""
    return (
        f'<p class="check {label.tone}" role="status" title="{escape(label.why)}">'
        f"<b>{escape(label.text)}</b>{why}</p>"
    )


def _tokens(row: StoredMessage) -> str:
    view = token_view(row.content, str(row.request.get("trace", "")))
    unknown = tr("Which rounds made this text was not kept.")
    return view or f'<p class="note">{unknown}</p>'


def _traced(row: StoredMessage) -> bool:
    return bool(row.request.get("trace")) and not by_hand(row)


def _verify(row: StoredMessage, check: Check | None) -> str:
    if not row.ids or by_hand(row):
        return ""
    going = check is not None and check.step != "done"
    return _button("verify", tr("Stop comparing") if going else tr("Verify"))


def live(now: Live, growing: Growing, told: Sequence[str] = ()) -> str:
    """The reply being written. `growing` keeps what is already HTML between calls."""
    facts = facts_of(now)
    body = ""
    if now.text:
        body = f'<div class="body writing">{_body(now.text, facts.thinking, growing)}</div>'
    if now.stage != "done" and (now.stage != "writing" or not now.text):
        text, share = view.waiting(now)
        body += f'<div class="wait">{progress(text, share)}</div>'
    return (
        f'<article class="turn reply live" aria-label="{tr("Reply being written")}" '
        f'aria-busy="true">'
        f"{body}{footer(facts, None, True, told)}</article>"
    )


def footer(facts: Facts, mark: str | None, writing: bool = False, told: Sequence[str] = ()) -> str:
    """Figures, the claim about the words, how it ended, and what to know about it."""
    parts = [
        f'<span class="figure" title="{escape(f.meaning)}"><b>{escape(f.value)}</b> '
        f"{escape(f.unit)}</span>"
        for f in view.figures(facts.metrics, facts.mode, writing)
    ]
    if facts.metrics.new_tokens:
        mode = tr("standard") if facts.mode == "standard" else tr("speculative")
        parts.insert(0, f'<span class="mode {facts.mode}">{mode}</span>')
    claim = view.claim(facts)
    if claim and not writing and facts.metrics.new_tokens:
        parts.append(
            f'<span class="claim {claim.tone}" title="{escape(claim.why)}">{claim.text}</span>'
        )
    if mark:
        parts.append(f'<span class="mark">{mark}</span>')
    if end := view.ending(facts):
        parts.append(f'<span class="mark">{escape(end)}</span>')
    line = f'<footer class="figures">{"".join(parts)}</footer>' if parts else ""
    notes = "".join(f'<p class="note">{escape(text)}</p>' for text in view.remarks(facts, told))
    return notes + line


def meter(used: int, context: int) -> str:
    """How full the context is, after the last reply; nothing before the first."""
    if not used or not context:
        return ""
    share = min(100, round(100 * used / context))
    here, whole = f"{used:,}", f"{context:,}"
    what = tr("{used} of {all} tokens of context used", used=here, all=whole)
    short = tr("{used} of {all} tokens", used=here, all=whole)
    tight = " tight" if share >= 85 else ""
    return (
        f'<div class="context{tight}" role="meter" aria-label="{tr("Context")}" aria-valuemin="0" '
        f'aria-valuemax="{context}" aria-valuenow="{used}" aria-valuetext="{what}" title="{what}">'
        f'<span>{short}</span><div class="bar"><i style="width: {share}%"></i></div></div>'
    )


def error(info: ErrorInfo) -> str:
    """One clear line and the way on."""
    hint = f" <span>{escape(tr(info.hint))}</span>" if info.hint else ""
    return f'<p class="error" role="alert"><b>{escape(tr(info.message))}</b>{hint}</p>'


def progress(text: str, share: float | None) -> str:
    """A text with a bar; the bar wanders where the share is unknown."""
    name = tr("Progress")
    if share is None:
        return f'<span>{escape(text)}</span><progress aria-label="{name}"></progress>'
    value = round(100 * min(1.0, share))
    return (
        f"<span>{escape(text)}</span>"
        f'<progress max="100" value="{value}" aria-label="{name}">{value} %</progress>'
    )


def pill(label: Label) -> str:
    """The page's status, with its reason in full. Figures that run are not read aloud."""
    live = "off" if label.tone == "busy" else "polite"
    return (
        f'<div class="pill {label.tone}" role="status" aria-live="{live}"'
        f' title="{escape(label.why)}">'
        f"<span class='dot' aria-hidden='true'></span><b>{escape(label.text)}</b>"
        f'<span class="why">{escape(label.why)}</span></div>'
    )


def _body(text: str, thinking: bool, growing: Growing | None = None) -> str:
    parts = split(text, thinking)
    thought = ""
    if parts.thought is not None:
        name = tr("Thought")
        if parts.open:
            name = tr("Thinking") if growing else tr("Thought, not finished")
        inside = growing.before.to_html(parts.thought) if growing else to_html(parts.thought)
        thought = (
            f'<details class="thought"{" open" if parts.open else ""}><summary>{name}</summary>'
            f"<div>{inside}</div></details>"
        )
    return thought + (growing.to_html(parts.answer) if growing else to_html(parts.answer))


def _said(text: str, thinking: bool) -> str:
    """The reply without what was thought aloud, for Copy; all of it where nothing else came."""
    return split(text, thinking).answer or text


def _source(text: str) -> str:
    """The text itself, for the Copy button."""
    return f'<span class="source" hidden>{escape(text)}</span>'


def _button(act: str, name: str) -> str:
    return f'<button type="button" data-act="{act}">{name}</button>'
