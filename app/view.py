"""Words and numbers for the page, from view models. Pure functions; knows no HTML and no gradio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from app.check import Check
from app.live import Facts, Live
from app.words import marked, tr, tr_n
from specdec.contract import FinishReason, Mode, Pair, Phase, Status
from specdec.metrics import Metrics

Tone = Literal["on", "plain", "busy", "warn", "bad"]

REASONS: dict[FinishReason, str] = {
    "end": "",
    "stop": marked("ended at a stop string"),
    "length": marked("cut at the token limit"),
    "context": marked("cut where the context is full"),
    "cancelled": marked("stopped"),
}
PHASES = {
    "starting": marked("Starting the engine"),
    "fetching": marked("Fetching"),
    "checking": marked("Checking"),
    "converting": marked("Converting"),
    "loading": marked("Loading"),
    "measuring": marked("Measuring"),
    "ready": marked("Ready"),
}


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with its unit, and what it means."""

    value: str
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Label:
    """A short text with a tone; `why` is the long form."""

    text: str
    tone: Tone
    why: str = ""


def seconds(value: float) -> str:
    """0.042 -> 42 ms; 3.14 -> 3.1 s; 125 -> 2 min 5 s."""
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 60:
        return f"{value:.1f} s"
    return f"{int(value) // 60} min {int(value) % 60} s"


def size(count: float) -> str:
    """Bytes in decimal units, as download pages show them."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return (
                f"{count / scale:.1f} {unit}"
                if count < 10 * scale
                else f"{count / scale:.0f} {unit}"
            )
    return f"{count:.0f} B"


def number(value: float) -> str:
    """Speed with a digit more where it is slow."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def figures(metrics: Metrics, mode: Mode, writing: bool = False) -> tuple[Figure, ...]:
    """The four numbers of a reply; what is not known yet is a dash, and zero drafts are said."""
    if not metrics.new_tokens:
        return ()
    speed = number(metrics.tok_s) if metrics.tok_s else "–"
    found = [
        Figure(speed, "tok/s", tr("tokens a second after the first round, by the engine's clock")),
        Figure(
            seconds(metrics.first_token_s), tr("to first token"), tr("reading the prompt included")
        ),
        Figure(
            f"{metrics.tokens_per_round:.2f}",
            tr("tokens a round"),
            tr(
                "{n} tokens in {rounds} rounds; the bonus token counts",
                n=metrics.new_tokens,
                rounds=metrics.rounds,
            ),
        ),
    ]
    if metrics.drafted:
        meaning = kept_of(metrics.accepted, metrics.drafted)
        found.append(Figure(f"{metrics.acceptance:.0%}", tr("of drafts kept"), meaning))
    elif mode == "speculative" and not (writing and metrics.rounds < 2):
        found.append(
            Figure("0", tr("tokens drafted"), tr("speculation proposed nothing in this reply"))
        )
    return tuple(found)


def kept_of(accepted: int, drafted: int) -> str:
    """How many drafted tokens were kept, in words."""
    return tr("{kept} of {all} drafted tokens were kept", kept=accepted, all=drafted)


def claim(facts: Facts) -> Label | None:
    """What may be said about a reply's words (DESIGN 8); nothing before it has a runner."""
    if facts.runner is None:
        return None
    if facts.mode == "standard":
        return Label(tr("plain decoding"), "plain", tr("one token a round; nothing is drafted"))
    if facts.rule == "reject":
        return Label(
            tr("same law; other words than plain decoding"),
            "plain",
            tr(
                "the rule reject draws its own noise; only at temperature 0 is nothing drawn at all"
            ),
        )
    if facts.exact:
        return Label(
            tr("same words as plain decoding"),
            "on",
            tr(
                "the {runner} runner computes the same numbers with and without drafts; "
                "the same seed gives the same words",
                runner=facts.runner,
            ),
        )
    return Label(
        tr("same law; words may differ at near-ties"),
        "plain",
        tr(
            "the {runner} runner rounds differently when it checks several tokens at once",
            runner=facts.runner,
        ),
    )


TIE = 0.1
"""Two scores closer than this (logit/T - log E) part by rounding alone."""


def apart(gap: float) -> str:
    """How far two tokens' scores are apart.

    A negative gap: plain decoding's token scored lower, so a filter kept the other one out.
    """
    if abs(gap) < TIE:
        return tr("a tie within {gap}", gap=f"{abs(gap):.2g}")
    if gap < 0:
        return tr("at the border of a filter")
    return tr("their scores are apart by {gap}", gap=f"{gap:.2g}")


def check(now: Check) -> Label:
    """What Verify found of a reply, or what it waits for. A stopped one found nothing."""
    if now.error is not None:
        return Label(tr("not verified"), "bad", str(now.error))
    if now.step == "waiting":
        if now.position:
            return Label(tr("waiting to be compared ({n} ahead)", n=now.position), "busy")
        return Label(tr("waiting to be compared (next)"), "busy")
    if now.step == "comparing":
        return Label(tr("comparing with plain decoding"), "busy")
    found = now.comparison
    if found is None:
        return Label(tr("comparison stopped"), "plain")
    if found.identical:
        why = tr("decoded plainly from an empty cache in the same runner, every token id compared")
        return Label(tr("verified: identical, {n} tokens", n=found.compared), "on", why)
    what = tr(
        "plain decoding says {expected}, here it is {got}",
        expected=repr(found.expected),
        got=repr(found.got),
    )
    gap = "" if found.gap is None else f"; {apart(found.gap)}"
    return Label(tr("differs at token {n}", n=found.compared), "bad", what + gap)


def ending(facts: Facts) -> str:
    """Why the reply ended, where that is not plain."""
    return tr(REASONS[facts.reason]) if facts.reason else ""


def remarks(facts: Facts, told: Sequence[str] = ()) -> tuple[str, ...]:
    """What the user must know about a reply: turns left out, notices not `told` just before."""
    left_out: tuple[str, ...] = ()
    if facts.dropped_turns:
        count = facts.dropped_turns
        left_out = (
            tr_n(
                "The first question and its reply did not fit and were left out.",
                "The first {n} questions and their replies did not fit and were left out.",
                count,
            ),
        )
    return (*left_out, *(text for text in facts.notices if text not in told))


def phase(at: Phase) -> tuple[str, float | None]:
    """Where a load stands: text, and the share done (None: unknown)."""
    share = at.done / at.total if at.total else None
    words = [tr(PHASES[at.name])]
    if at.model and at.name != "starting":
        words[0] += f" {at.model}"
    if at.name == "fetching" and at.total:
        words.append(tr("{part} of {all}", part=size(at.done), all=size(at.total)))
        if at.rate:
            words.append(f"{size(at.rate)}/s")
    if at.detail:
        words.append(at.detail)
    return " · ".join(words), share


def waiting(live: Live) -> tuple[str, float | None]:
    """What a reply without a word is doing, and the share done."""
    if live.stage == "loading" and live.phase is not None:
        text, share = phase(live.phase)
        return f"{text} · {tr('your message is answered when it is ready')}", share
    if live.position:
        waits = tr_n(
            "Waiting: {n} reply is made before this one",
            "Waiting: {n} replies are made before this one",
            live.position,
        )
        return waits, None
    if live.stage == "reading" and live.prefill[1]:
        done, total = live.prefill
        read = tr("{used} of {all} tokens", used=done, all=total)
        return f"{tr('Reading the prompt')} · {read}", done / total
    return tr("Starting"), None


def pill(status: Status, at: Phase | None, mode: Mode, last: Facts | None) -> Label:
    """One label for the whole page: is speculation on, and if not, why not."""
    if at is not None:
        return Label(tr("loading"), "busy", phase(at)[0])
    if status.state == "unloaded":
        return Label(tr("unloaded"), "plain", tr("Its memory is free; a message loads it again."))
    if status.state == "failed" or (status.pair is None and status.error):
        return Label(
            tr("no model"), "bad", str(status.error or tr("The model could not be loaded."))
        )
    if status.pair is None:
        return Label(tr("starting"), "busy", tr("The engine is starting."))
    pair = status.pair
    if mode == "standard":
        return Label(tr("standard"), "plain", tr("Plain decoding, by your choice."))
    if pair.draft.value == "none":
        return Label(tr("speculation off"), "warn", pair.draft.reason)
    if last is not None and last.mode == "standard" and last.notices:
        return Label(tr("fell back"), "warn", last.notices[-1])
    if last is not None and last.mode == "speculative" and last.notices:
        drafted = last.metrics.drafted > 0 or not last.metrics.rounds
        text = tr("speculative, with a note") if drafted else tr("speculation off")
        return Label(text, "warn", last.notices[-1])
    if last is not None and last.mode == "speculative" and last.k == 0 and last.metrics.rounds:
        return Label(
            tr("nothing drafted: longest draft is 0"),
            "warn",
            tr("Raise it under Reply settings, More."),
        )
    return Label(tr("speculative"), "on", with_draft(pair))


def with_draft(pair: Pair) -> str:
    """The two models of a pair."""
    return tr("{target} with {draft}", target=pair.target.value, draft=pair.draft.value)
