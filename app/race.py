"""One prompt, both modes, one after the other: same pair, same seed, each from an empty cache.

Knows nothing of pages. Nothing is cached and nothing is called the same unless it was compared.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from app.desk import Options
from app.live import Live
from app.loader import Loader
from app.replies import run
from app.words import tr
from specdec.contract import (
    Cancel,
    ChatEngine,
    ChatRequest,
    Comparison,
    ErrorInfo,
    Message,
    Mode,
    Phase,
    Reply,
    Rule,
    Runner,
)
from specdec.errors import SpecdecError

PROBE_TOKENS = 48
"""Enough to time the other plain runner; its text is not shown."""


@dataclass(frozen=True, slots=True)
class Difference:
    """First place where the two replies part: a token index, and the text each goes on with."""

    index: int
    before: str
    speculative: str
    standard: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """`ratio` is speculative tok/s over the faster plain runner's; None: too short to time.

    `compared` tokens were. `both_timed`: the baseline is the faster of two plain runners.
    `comparable` is False where the lanes had other words before: then none were compared.
    """

    ratio: float | None
    baseline: float
    baseline_runner: Runner
    identical: bool
    compared: int
    difference: Difference | None = None
    gap: Comparison | None = None  # engine's own look at the place, when they differ
    gap_note: str = ""
    both_timed: bool = False
    comparable: bool = True


@dataclass(frozen=True, slots=True)
class RaceView:
    """Both lanes and what came of them. A lane that has not begun is None.

    `rule` is the setting of the chat; the race itself always uses match. `past` are the races
    before, of which this one goes on: each lane answers with its own words in mind.
    """

    prompt: str = ""
    order: tuple[Mode, Mode] = ("standard", "speculative")
    speculative: Live | None = None
    standard: Live | None = None
    probe: Live | None = None
    step: Literal["waiting", "speculative", "standard", "probe", "checking", "done"] = "waiting"
    phase: Phase | None = None
    position: int = 0
    seed: int = 0
    outcome: Outcome | None = None
    stopped: bool = False
    error: ErrorInfo | None = None
    rule: Rule = "match"
    past: tuple[RaceView, ...] = ()

    def lane(self, mode: Mode) -> Live | None:
        return self.speculative if mode == "speculative" else self.standard


def race(
    engine: ChatEngine,
    loader: Loader,
    prompt: str,
    options: Options,
    order: tuple[Mode, Mode],
    cancel: Cancel,
    past: tuple[RaceView, ...] = (),
) -> Iterator[RaceView]:
    """Snapshots to the end. A seed left empty is drawn once and used by both lanes."""
    sampling, system = options.sampling, options.system
    seed = sampling.seed if sampling.seed is not None else secrets.randbelow(2**31)
    view = RaceView(prompt, order, seed=seed, rule=options.rule, past=past)
    error = loader.ensure(lambda _: None)  # the page reads the phase from the engine's status
    if error is not None:
        yield replace(view, step="done", error=error)
        return
    turns = (Message("system", system),) if system.strip() else ()
    asks = {
        mode: ChatRequest(
            messages=(*turns, *said_before(past, mode), Message("user", prompt)),
            sampling=replace(sampling, seed=seed),
            mode=mode,
            k=options.k if mode == "speculative" else None,
            fresh=True,
        )
        for mode in order
    }
    for mode in order:
        for live in run(engine, asks[mode], cancel):
            view = replace(
                view,
                step=mode,
                speculative=live if mode == "speculative" else view.speculative,
                standard=live if mode == "standard" else view.standard,
            )
            yield view
        if live.error or live.reason == "cancelled":
            yield replace(view, step="done", error=live.error, stopped=live.error is None)
            return
    for probed in _probe(engine, asks["standard"], view, cancel):
        view = probed
        yield view
    yield replace(view, step="checking")
    if cancel.is_set():
        yield replace(view, step="done", stopped=True)
        return
    yield replace(view, step="done", outcome=judge(engine, asks, view, cancel))


def said_before(past: Sequence[RaceView], mode: Mode) -> tuple[Message, ...]:
    """The turns of one lane, with its own ids."""
    turns: list[Message] = []
    for view in past:
        live = view.lane(mode)
        if live is None:
            raise ValueError("a race goes on when both lanes are done")
        turns += [Message("user", view.prompt), Message("assistant", live.text, live.ids)]
    return tuple(turns)


def _probe(
    engine: ChatEngine, ask: ChatRequest, view: RaceView, cancel: Cancel
) -> Iterator[RaceView]:
    """When the plain lane ran in the static runner, time the fast one too (DESIGN 5)."""
    standard = view.standard
    if standard is None or standard.started is None or standard.started.runner != "static":
        return
    short = replace(ask.sampling, max_tokens=min(PROBE_TOKENS, ask.sampling.max_tokens))
    request = replace(ask, runner="fast", sampling=short)
    for live in run(engine, request, cancel):
        view = replace(view, step="probe", probe=live)
        yield view


def judge(
    engine: ChatEngine, asks: Mapping[Mode, ChatRequest], view: RaceView, cancel: Cancel
) -> Outcome:
    """Ratio against the faster plain runner, and the comparison of ids."""
    spec, plain = view.speculative, view.standard
    if spec is None or plain is None or plain.started is None:
        raise ValueError("a race is judged when both lanes are done")
    baseline, runner = plain.metrics.tok_s, plain.started.runner
    probed = view.probe.metrics.tok_s if view.probe and view.probe.error is None else 0.0
    both_timed = baseline > 0 and probed > 0
    if probed > baseline:
        baseline, runner = probed, "fast"
    ratio = spec.metrics.tok_s / baseline if baseline > 0 and spec.metrics.tok_s > 0 else None
    if asks["speculative"].messages != asks["standard"].messages:
        return Outcome(ratio, baseline, runner, False, 0, None, None, "", both_timed, False)
    at = first_difference(spec.ids, plain.ids)
    outcome = Outcome(
        ratio=ratio,
        baseline=baseline,
        baseline_runner=runner,
        identical=at is None,
        compared=min(len(spec.ids), len(plain.ids)) if at is None else at + 1,
        difference=None if at is None else _difference(at, spec.text, plain.text),
        both_timed=both_timed,
    )
    if at is None:
        return outcome
    try:
        return replace(outcome, gap=engine.verify(Reply(asks["speculative"], spec.ids), cancel))
    except SpecdecError as error:
        return replace(
            outcome, gap_note=f"{tr('How close the two tokens were is not known.')} {error}"
        )


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """Index of the first id that differs or is missing on one side; None when all are equal."""
    for i, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return i
    return None if len(one) == len(other) else min(len(one), len(other))


def _difference(index: int, one: str, other: str, around: int = 28) -> Difference:
    same = next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
    return Difference(
        index,
        one[max(0, same - around) : same],
        one[same : same + around],
        other[same : same + around],
    )
