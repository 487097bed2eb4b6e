"""A race as HTML: two lanes with their clocks, and the verdict. Knows no gradio, no engine."""

from __future__ import annotations

from html import escape

from app import bubbles, view
from app.live import Live, facts_of
from app.race import Outcome, RaceView
from app.words import marked, tr
from specdec.contract import Mode

NAMES: dict[Mode, str] = {
    "speculative": marked("Speculative"),
    "standard": marked("Standard"),
}


def empty() -> str:
    """What the board says before the first race."""
    text = tr(
        "One prompt, answered twice by the same model with the same seed: "
        "once plainly, once speculatively, one after the other, each from an empty cache. The "
        "words are then compared token by token."
    )
    return f'<div class="race-empty"><p>{text}</p></div>'


def board(now: RaceView) -> str:
    """Lanes in the order they run, the verdict above them when there is one."""
    return f'<div class="race">{head(now)}{rule(now)}{lanes(now)}</div>'


def lanes(now: RaceView, order: tuple[Mode, Mode] | None = None) -> str:
    """Both lanes, in the order they run, or in this one."""
    inside = "".join(_lane(now, mode) for mode in order or now.order)
    return f'<div class="lanes">{inside}</div>'


def rule(now: RaceView) -> str:
    """A word where the chat's rule is not the race's."""
    if now.rule != "reject":
        return ""
    text = tr(
        "The rule in Reply settings is reject; the race uses match, the rule under "
        "which the words of both lanes can be compared."
    )
    return f'<p class="note">{text}</p>'


def head(now: RaceView) -> str:
    """The verdict, what went wrong, or what goes on."""
    if now.error is not None:
        return bubbles.error(now.error)
    if now.stopped:
        return f'<p class="note">{tr("Stopped. Nothing was compared.")}</p>'
    if now.outcome is not None:
        return verdict(now, now.outcome)
    return f'<div class="wait">{bubbles.progress(*doing(now))}</div>'


def doing(now: RaceView) -> tuple[str, float | None]:
    """What a race that is not over does, and the share done of that."""
    if now.step == "waiting":
        waits = Live(
            stage="loading" if now.phase else "waiting", position=now.position, phase=now.phase
        )
        return view.waiting(waits)
    if now.step == "probe":
        return tr("Timing the other plain runner, for a fair baseline"), None
    if now.step == "checking":
        return tr("Comparing the two replies"), None
    if now.step == "done":
        return tr("Done"), 1.0
    return tr("{mode} decoding is running", mode=tr(NAMES[now.step])), None


def verdict(now: RaceView, outcome: Outcome) -> str:
    """The ratio against the faster plain runner, and what the comparison found."""
    fast = _speed(now.speculative.metrics.tok_s if now.speculative else 0.0)
    base = _speed(outcome.baseline)
    runner = outcome.baseline_runner
    which = tr("plain decoding in the {runner} runner", runner=runner)
    if outcome.both_timed:
        which = tr(
            "plain decoding in the {runner} runner, the faster of the two plain runners",
            runner=runner,
        )
    elif now.probe is not None and now.probe.error is not None:
        failed = tr("the fast runner could not be timed: {why}", why=now.probe.error)
        which += f" ({failed})"
    ratio = tr("too short to time") if outcome.ratio is None else f"{outcome.ratio:.2f}×"
    against = tr("{a} against {b} tok/s", a=fast, b=base)
    seed = tr("seed {n}", n=now.seed)
    return (
        f'<div class="verdict" role="status"><div class="ratio"><b>{ratio}</b>'
        f"<span>{against} · {escape(which)} · {seed}</span></div>"
        f"{words(outcome)}</div>"
    )


def _speed(value: float) -> str:
    return view.number(value) if value > 0 else "–"


def words(outcome: Outcome) -> str:
    """What the comparison of the two replies found."""
    if not outcome.comparable:
        why = tr("the lanes had other words before, so each answers a conversation of its own")
        return f'<div class="words"><b>{tr("Not compared")}</b><span>{why}</span></div>'
    if outcome.identical:
        all_ = tr("all {n} tokens compared, none differs", n=outcome.compared)
        return f'<div class="words same"><b>{tr("Same words")}</b><span>{all_}</span></div>'
    found = outcome.difference
    if found is None:
        raise ValueError("two replies that differ, differ somewhere")
    gap = escape(outcome.gap_note)
    seen = outcome.gap
    if seen is not None and seen.identical:
        gap = tr("the speculative reply equals plain decoding in its own runner")
    elif seen is not None and seen.gap is not None and seen.first_difference == found.index:
        gap = view.apart(seen.gap)
    end = tr("(end)")
    both = tr(
        "{one} speculative, {other} standard",
        one=f"<mark class='spec'>{escape(found.speculative) or end}</mark>",
        other=f"<mark>{escape(found.standard) or end}</mark>",
    )
    return (
        f'<div class="words differ"><b>{tr("Differs at token {n}", n=found.index + 1)}</b>'
        f"<span>…{escape(found.before)}{both}{' · ' + gap if gap else ''}</span></div>"
    )


def _lane(now: RaceView, mode: Mode) -> str:
    live = now.lane(mode)
    if live is None:
        state, body, clock, foot = "idle", f"<p class='idle'>{tr('waits for its turn')}</p>", "", ""
    else:
        state = "done" if live.stage == "done" else "running"
        text, _ = view.waiting(live)
        body = (
            f'<div class="words-out">{_pieces(live)}</div>'
            if live.text
            else f"<p>{escape(text)}</p>"
        )
        total = live.metrics.first_token_s + live.metrics.decode_s
        clock = f'<span class="clock">{total:.1f} s</span>'
        foot = bubbles.footer(facts_of(live), None, writing=state == "running")
    name = tr(NAMES[mode])
    return (
        f'<section class="lane {mode} {state}" aria-label="{name}">'
        f"<header><h3>{name}</h3>{_legend() if mode == 'speculative' else ''}{clock}</header>"
        f'<div class="scroll" tabindex="0"><div>{_before(now, mode)}{body}</div></div>'
        f"{foot}</section>"
    )


def _legend() -> str:
    shaded = f'<span class="kept">{tr("shaded")}</span>'
    return f'<span class="legend">{tr("{shaded}: drafted and kept", shaded=shaded)}</span>'


def _before(now: RaceView, mode: Mode) -> str:
    """The turns a lane had before, and what it answers now; nothing in a first race."""
    if not now.past:
        return ""
    turns = [
        f'<p class="asked">{escape(view.prompt)}</p><div class="words-out">{_pieces(live)}</div>'
        for view in now.past
        if (live := view.lane(mode)) is not None
    ]
    return f'{"".join(turns)}<p class="asked">{escape(now.prompt)}</p>'


def _pieces(live: Live) -> str:
    """The text as it came: what was drafted and kept is marked."""
    out: list[str] = []
    kind, run = "", ""
    for piece in live.pieces:
        if piece.kind != kind:
            out.append(_run(kind, run))
            kind, run = piece.kind, ""
        run += piece.text
    out.append(_run(kind, run))
    return "".join(out)


def _run(kind: str, text: str) -> str:
    if not text:
        return ""
    return f'<span class="kept">{escape(text)}</span>' if kind == "kept" else escape(text)
