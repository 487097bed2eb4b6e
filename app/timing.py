"""One reply timed through the engine's contract, in the terms of `specdec bench`. No torch."""

from __future__ import annotations

from dataclasses import dataclass

from app.words import marked
from specdec.bench.sample import Reply
from specdec.contract import (
    Cancel,
    ChatEngine,
    ChatRequest,
    ErrorInfo,
    Failed,
    Finished,
    Round,
    Started,
)
from specdec.metrics import Metrics

VANISHED = ErrorInfo(
    "EngineError", marked("The engine stopped in the middle of a reply."), marked("Run it again.")
)


@dataclass(frozen=True, slots=True)
class Timed:
    """`reply` is None where it failed (`error`) or was cancelled. `runner` is what made it."""

    reply: Reply | None = None
    runner: str = ""
    error: ErrorInfo | None = None
    cancelled: bool = False


def timed(engine: ChatEngine, request: ChatRequest, cancel: Cancel) -> Timed:
    """Make a reply to its end. Times are the engine's own, never this process's."""
    runner = ""
    marks: list[tuple[int, float]] = []  # tokens so far, seconds since the first
    for event in engine.stream(request, cancel):
        match event:
            case Started():
                runner = event.runner
            case Round() if event.ids:
                marks.append((event.new_tokens, event.elapsed))
            case Finished(reason="cancelled"):
                return Timed(runner=runner, cancelled=True)
            case Finished():
                return Timed(_reply(event.ids, marks, event.metrics), runner)
            case Failed(error):
                return Timed(runner=runner, error=error)
    return Timed(runner=runner, error=VANISHED)


def _reply(ids: tuple[int, ...], marks: list[tuple[int, float]], metrics: Metrics) -> Reply:
    """A round that only found the end has no tokens to count."""
    first = metrics.first_token_s
    counted = [(min(made, metrics.new_tokens), first + elapsed) for made, elapsed in marks]
    return Reply(
        ids,
        tuple(counted) or ((0, first),),
        metrics.rounds,
        metrics.drafted,
        metrics.accepted,
    )
