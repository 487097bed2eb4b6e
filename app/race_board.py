"""A race as HTML: two lanes with their clocks, and the verdict. Knows no gradio, no engine."""

from __future__ import annotations

from html import escape

from app import bubbles, view
from app.live import Live, facts_of
from app.race import Outcome, RaceView
from specdec.contract import Mode

NAMES: dict[Mode, str] = {"speculative": "Speculative", "standard": "Standard"}
LEGEND = '<span class="legend"><span class="kept">shaded</span>: drafted and kept</span>'
REJECT = (
    '<p class="note">The rule in Reply settings is reject; the race uses match, the rule under '
    "which the words of both lanes can be compared.</p>"
)
EMPTY = (
    '<div class="race-empty"><p>One prompt, answered twice by the same model with the same seed: '
    "once plainly, once speculatively, one after the other, each from an empty cache. The words "
    "are then compared token by token.</p></div>"
)


def board(now: RaceView) -> str:
    """Lanes in the order they run, the verdict above them when there is one."""
    return f'<div class="race">{head(now)}{rule(now)}{lanes(now)}</div>'


def lanes(now: RaceView, order: tuple[Mode, Mode] | None = None) -> str:
    """Both lanes, in the order they run, or in this one."""
    inside = "".join(_lane(now, mode) for mode in order or now.order)
    return f'<div class="lanes">{inside}</div>'


def rule(now: RaceView) -> str:
    """A word where the chat's rule is not the race's."""
    return REJECT if now.rule == "reject" else ""


def head(now: RaceView) -> str:
    """The verdict, what went wrong, or what goes on."""
    if now.error is not None:
        return bubbles.error(now.error)
    if now.stopped:
        return '<p class="note">Stopped. Nothing was compared.</p>'
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
        return "Timing the other plain runner, for a fair baseline", None
    if now.step == "checking":
        return "Comparing the two replies", None
    if now.step == "done":
        return "Done", 1.0
    return f"{NAMES[now.step]} decoding is running", None


def verdict(now: RaceView, outcome: Outcome) -> str:
    """The ratio against the faster plain runner, and what the comparison found."""
    fast = _speed(now.speculative.metrics.tok_s if now.speculative else 0.0)
    base = _speed(outcome.baseline)
    which = f"plain decoding in the {outcome.baseline_runner} runner"
    if outcome.both_timed:
        which += ", the faster of the two plain runners"
    elif now.probe is not None and now.probe.error is not None:
        which += f" (the fast runner could not be timed: {now.probe.error})"
    ratio = "too short to time" if outcome.ratio is None else f"{outcome.ratio:.2f}×"
    return (
        f'<div class="verdict" role="status"><div class="ratio"><b>{ratio}</b>'
        f"<span>{fast} against {base} tok/s · {escape(which)} · seed {now.seed}</span></div>"
        f"{words(outcome)}</div>"
    )


def _speed(value: float) -> str:
    return view.number(value) if value > 0 else "–"


def words(outcome: Outcome) -> str:
    """What the comparison of the two replies found."""
    if not outcome.comparable:
        return (
            '<div class="words"><b>Not compared</b><span>the lanes had other words before, so each '
            "answers a conversation of its own</span></div>"
        )
    if outcome.identical:
        return (
            '<div class="words same"><b>Same words</b>'
            f"<span>all {outcome.compared} tokens compared, none differs</span></div>"
        )
    found = outcome.difference
    if found is None:
        raise ValueError("two replies that differ, differ somewhere")
    gap = escape(outcome.gap_note)
    seen = outcome.gap
    if seen is not None and seen.identical:
        gap = "the speculative reply equals plain decoding in its own runner"
    elif seen is not None and seen.gap is not None and seen.first_difference == found.index:
        gap = view.apart(seen.gap)
    return (
        f'<div class="words differ"><b>Differs at token {found.index + 1}</b>'
        f"<span>…{escape(found.before)}<mark class='spec'>{escape(found.speculative) or '(end)'}"
        f"</mark> speculative, <mark>{escape(found.standard) or '(end)'}</mark> standard"
        f"{' · ' + gap if gap else ''}</span></div>"
    )


def _lane(now: RaceView, mode: Mode) -> str:
    live = now.lane(mode)
    if live is None:
        state, body, clock, foot = "idle", "<p class='idle'>waits for its turn</p>", "", ""
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
    return (
        f'<section class="lane {mode} {state}" aria-label="{NAMES[mode]}">'
        f"<header><h3>{NAMES[mode]}</h3>{LEGEND if mode == 'speculative' else ''}{clock}</header>"
        f'<div class="scroll" tabindex="0"><div>{_before(now, mode)}{body}</div></div>'
        f"{foot}</section>"
    )


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
