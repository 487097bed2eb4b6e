"""Words and numbers for the page, from view models. Pure functions; knows no HTML and no gradio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from app.check import Check
from app.live import Facts, Live
from specdec.contract import FinishReason, Mode, Phase, Sampling, Status
from specdec.metrics import Metrics

Tone = Literal["on", "plain", "busy", "warn", "bad"]

REASONS: dict[FinishReason, str] = {
    "end": "",
    "stop": "ended at a stop string",
    "length": "cut at the token limit",
    "context": "cut where the context is full",
    "cancelled": "stopped",
}
PHASES = {
    "starting": "Starting the engine",
    "fetching": "Fetching",
    "checking": "Checking",
    "converting": "Converting",
    "loading": "Loading",
    "measuring": "Measuring",
    "ready": "Ready",
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
        Figure(speed, "tok/s", "tokens a second after the first round, by the engine's clock"),
        Figure(seconds(metrics.first_token_s), "to first token", "reading the prompt included"),
        Figure(
            f"{metrics.tokens_per_round:.2f}",
            "tokens a round",
            f"{metrics.new_tokens} tokens in {metrics.rounds} rounds; the bonus token counts",
        ),
    ]
    if metrics.drafted:
        meaning = f"{metrics.accepted} of {metrics.drafted} drafted tokens were kept"
        found.append(Figure(f"{metrics.acceptance:.0%}", "of drafts kept", meaning))
    elif mode == "speculative" and not (writing and metrics.rounds < 2):
        found.append(Figure("0", "tokens drafted", "speculation proposed nothing in this reply"))
    return tuple(found)


def claim(facts: Facts) -> Label | None:
    """What may be said about a reply's words (DESIGN 8); nothing before it has a runner."""
    if facts.runner is None:
        return None
    if facts.mode == "standard":
        return Label("plain decoding", "plain", "one token a round; nothing is drafted")
    if facts.rule == "reject":
        return Label(
            "same law; other words than plain decoding",
            "plain",
            "the rule reject draws its own noise; only at temperature 0 is nothing drawn at all",
        )
    if facts.exact:
        return Label(
            "same words as plain decoding",
            "on",
            f"the {facts.runner} runner computes the same numbers with and without drafts; "
            "the same seed gives the same words",
        )
    return Label(
        "same law; words may differ at near-ties",
        "plain",
        f"the {facts.runner} runner rounds differently when it checks several tokens at once",
    )


TIE = 0.1
"""Two scores closer than this (logit/T - log E) part by rounding alone."""


def apart(gap: float) -> str:
    """How far two tokens' scores are apart.

    A negative gap: plain decoding's token scored lower, so a filter kept the other one out.
    """
    if abs(gap) < TIE:
        return f"a tie within {abs(gap):.2g}"
    return "at the border of a filter" if gap < 0 else f"their scores are apart by {gap:.2g}"


def check(now: Check) -> Label:
    """What Verify found of a reply, or what it waits for. A stopped one found nothing."""
    if now.error is not None:
        return Label("not verified", "bad", str(now.error))
    if now.step == "waiting":
        ahead = f"{now.position} ahead" if now.position else "next"
        return Label(f"waiting to be compared ({ahead})", "busy")
    if now.step == "comparing":
        return Label("comparing with plain decoding", "busy")
    found = now.comparison
    if found is None:
        return Label("comparison stopped", "plain")
    if found.identical:
        why = "decoded plainly from an empty cache in the same runner, every token id compared"
        return Label(f"verified: identical, {found.compared} tokens", "on", why)
    gap = "" if found.gap is None else f"; {apart(found.gap)}"
    what = f"plain decoding says {found.expected!r}, here it is {found.got!r}{gap}"
    return Label(f"differs at token {found.compared}", "bad", what)


def ending(facts: Facts) -> str:
    """Why the reply ended, where that is not plain."""
    return REASONS[facts.reason] if facts.reason else ""


def remarks(facts: Facts, told: Sequence[str] = ()) -> tuple[str, ...]:
    """What the user must know about a reply: turns left out, notices not `told` just before."""
    left_out: tuple[str, ...] = ()
    if facts.dropped_turns:
        count = facts.dropped_turns
        what = "question and its reply" if count == 1 else f"{count} questions and their replies"
        left_out = (f"The first {what} did not fit and were left out.",)
    return (*left_out, *(text for text in facts.notices if text not in told))


def phase(at: Phase) -> tuple[str, float | None]:
    """Where a load stands: text, and the share done (None: unknown)."""
    share = at.done / at.total if at.total else None
    words = [PHASES[at.name]]
    if at.model and at.name != "starting":
        words[0] += f" {at.model}"
    if at.name == "fetching" and at.total:
        words.append(f"{size(at.done)} of {size(at.total)}")
        if at.rate:
            words.append(f"{size(at.rate)}/s")
    if at.detail:
        words.append(at.detail)
    return " · ".join(words), share


def waiting(live: Live) -> tuple[str, float | None]:
    """What a reply without a word is doing, and the share done."""
    if live.stage == "loading" and live.phase is not None:
        text, share = phase(live.phase)
        return f"{text} · your message is answered when it is ready", share
    if live.position:
        ahead = "1 reply is" if live.position == 1 else f"{live.position} replies are"
        return f"Waiting: {ahead} made before this one", None
    if live.stage == "reading" and live.prefill[1]:
        done, total = live.prefill
        return f"Reading the prompt · {done} of {total} tokens", done / total
    return "Starting", None


def pill(status: Status, at: Phase | None, mode: Mode, last: Facts | None) -> Label:
    """One label for the whole page: is speculation on, and if not, why not."""
    if at is not None:
        return Label("loading", "busy", phase(at)[0])
    if status.state == "unloaded":
        return Label("unloaded", "plain", "Its memory is free; a message loads it again.")
    if status.state == "failed" or (status.pair is None and status.error):
        return Label("no model", "bad", str(status.error or "The model could not be loaded."))
    if status.pair is None:
        return Label("starting", "busy", "The engine is starting.")
    pair = status.pair
    if mode == "standard":
        return Label("standard", "plain", "Plain decoding, by your choice.")
    if pair.draft.value == "none":
        return Label("speculation off", "warn", pair.draft.reason)
    if last is not None and last.mode == "standard" and last.notices:
        return Label("fell back", "warn", last.notices[-1])
    if last is not None and last.mode == "speculative" and last.notices:
        drafted = last.metrics.drafted > 0 or not last.metrics.rounds
        text = "speculative, with a note" if drafted else "speculation off"
        return Label(text, "warn", last.notices[-1])
    if last is not None and last.mode == "speculative" and last.k == 0 and last.metrics.rounds:
        return Label(
            "nothing drafted: longest draft is 0", "warn", "Raise it under Reply settings, More."
        )
    return Label("speculative", "on", f"{pair.target.value} with {pair.draft.value}")


def effective(sampling: Sampling) -> str:
    """The settings a reply is drawn with, as they act: off means off."""
    if sampling.temperature == 0:
        words = ["temperature 0: always the likeliest token"]
    else:
        words = [f"temperature {sampling.temperature:g}"]
    off: list[str] = []
    for name, value, neutral in (
        ("top-k", sampling.top_k, 0),
        ("top-p", sampling.top_p, 1),
        ("min-p", sampling.min_p, 0),
        ("repetition penalty", sampling.repetition_penalty, 1),
        ("frequency penalty", sampling.frequency_penalty, 0),
        ("presence penalty", sampling.presence_penalty, 0),
    ):
        (off if value == neutral else words).append(
            name if value == neutral else f"{name} {value:g}"
        )
    if off:
        words.append(f"off: {', '.join(off)}")
    words.append("a fresh seed each reply" if sampling.seed is None else f"seed {sampling.seed}")
    words.append(f"up to {sampling.max_tokens:,} tokens")
    if sampling.stop:
        words.append(f"stops at {', '.join(map(repr, sampling.stop))}")
    return " · ".join(words)
