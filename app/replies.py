"""Makes one reply: runs the engine's stream, folds events, keeps the transcript up to date.

Knows nothing of pages: it runs in the worker, whether or not anybody watches.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from app.line import Job
from app.live import Live, facts_of, fold
from app.loader import Loader
from app.transcript import Transcript
from app.words import marked, tr
from specdec.contract import Cancel, ChatEngine, ChatRequest, ErrorInfo, Failed, Notice, Pair, Phase
from specdec.errors import SpecdecError

SAVE_EVERY_S = 1.0
"""A kill costs so much of a reply at most; its first words are stored at once."""

MADE_BY = ("target", "draft", "dtype", "device")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a reply is stored; `before` is the request stored with one that goes on."""

    transcript: Transcript
    message: int
    before: Mapping[str, Any] = field(default_factory=dict)


def make_reply(
    engine: ChatEngine,
    loader: Loader,
    request: ChatRequest,
    place: Place,
    job: Job[Live],
    check: Callable[[], None] = lambda: None,
) -> None:
    """Runs to the end or the cancel; the last snapshot has a reason or an error.

    `check` raises where what is loaded now cannot make this reply.
    """
    saved, stored = time.monotonic(), bool(job.snapshot.text)
    try:
        error = loader.ensure(lambda phase: _show(job, phase))
        if error is not None:
            job.snapshot = fold(job.snapshot, Failed(error))
            return
        check()
        for live in run(engine, request, job, replace(job.snapshot, stage="waiting", phase=None)):
            job.snapshot = live
            first = bool(live.text) and not stored
            if first or time.monotonic() - saved > SAVE_EVERY_S:
                _save(engine, request, place, job)
                saved, stored = time.monotonic(), stored or first
    except Exception as error:
        log.exception("a reply failed")
        job.snapshot = fold(job.snapshot, Failed(ErrorInfo.of(error)))
    finally:
        _save(engine, request, place, job)


def _show(job: Job[Live], phase: Phase) -> None:
    job.snapshot = replace(job.snapshot, stage="loading", phase=phase)


def run(
    engine: ChatEngine, request: ChatRequest, cancel: Cancel, begun: Live | None = None
) -> Generator[Live, None, None]:
    """Snapshots of one engine stream, from an empty one or one begun. Ends in one that is done."""
    live = begun or Live(rule=request.rule, k=request.k)
    for event in engine.stream(request, cancel):
        live = fold(live, event)
        yield live
    if live.stage != "done":
        gone = ErrorInfo(
            "EngineError",
            marked("The engine stopped in the middle of the reply."),
            marked("Send the message again: the engine starts anew."),
        )
        yield fold(live, Failed(gone))


def withdrawn(engine: ChatEngine, request: ChatRequest, place: Place, job: Job[Live]) -> None:
    """A reply stopped before its turn came: stored as interrupted, without a word."""
    job.snapshot = replace(job.snapshot, stage="done", reason="cancelled")
    _save(engine, request, place, job)
    job.done.set()


def refused(
    engine: ChatEngine, request: ChatRequest, place: Place, job: Job[Live], error: SpecdecError
) -> None:
    """A reply that did not get into the queue: stored as failed, with the reason.

    One that was to go on stays as it was.
    """
    if job.snapshot.earlier is not None:
        job.done.set()
        return
    job.snapshot = fold(job.snapshot, Failed(ErrorInfo.of(error)))
    _save(engine, request, place, job)
    job.done.set()


def _save(engine: ChatEngine, request: ChatRequest, place: Place, job: Job[Live]) -> None:
    """Store the snapshot. A store that fails is said once, in the reply; the reply goes on."""
    live = job.snapshot
    row = stored_request(request, live, engine.status().pair)
    if live.started is None:  # nobody has gone on with it yet, whatever is loaded now
        row |= {name: place.before[name] for name in MADE_BY if name in place.before}
    try:
        place.transcript.update(
            place.message,
            live.text,
            live.ids,
            live.state,
            live.metrics.to_json(),
            row,
        )
    except SpecdecError as error:
        text = f"{tr('This reply could not be stored.')} {error}"
        if text not in live.notices:
            job.snapshot = fold(live, Notice(text))


def stored_request(request: ChatRequest, live: Live, pair: Pair | None) -> dict[str, Any]:
    """What made the reply, as JSON: `live.facts_from` and `verifying.made_by` read it back."""
    target, draft = (pair.target.value, pair.draft.value) if pair else ("", "")
    facts = facts_of(live, target, draft)
    row = asdict(facts)
    del row["metrics"]
    row["sampling"] = asdict(request.sampling)
    row["system"] = "".join(m.content for m in request.messages if m.role == "system")
    row["trace"] = " ".join(live.trace)
    row["dtype"] = pair.dtype.value if pair else ""
    row["device"] = pair.device.value if pair else ""
    return row
