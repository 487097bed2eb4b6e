"""One reply as the page shows it, and how the engine's events change it. Pure, no threads."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from app.joined import cut, joined
from app.trace import note
from specdec.contract import (
    ErrorInfo,
    Event,
    Failed,
    Finished,
    FinishReason,
    Mode,
    Notice,
    Phase,
    Prefill,
    Queued,
    Round,
    Rule,
    Runner,
    SpanKind,
    Started,
)
from specdec.metrics import Metrics

Stage = Literal["waiting", "loading", "reading", "writing", "done"]


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of text and where it came from."""

    text: str
    kind: SpanKind


@dataclass(frozen=True, slots=True)
class Live:
    """A snapshot of a reply being made. `metrics` follows the engine's clock, never the page's.

    `trace` has a word a round (`app.trace`). `rule` and `k` are the request's. `clock` is set at
    `Started` and serves only until the engine reports its own first-token time. `earlier` is how
    the part was made that stood before, where a stopped reply goes on; its figures are counted in.
    """

    stage: Stage = "waiting"
    text: str = ""
    ids: tuple[int, ...] = ()
    pieces: tuple[Piece, ...] = ()
    trace: tuple[str, ...] = ()
    position: int = 0
    phase: Phase | None = None
    prefill: tuple[int, int] = (0, 0)
    started: Started | None = None
    metrics: Metrics = field(default_factory=Metrics)
    notices: tuple[str, ...] = ()
    reason: FinishReason | None = None
    error: ErrorInfo | None = None
    clock: float = 0.0
    rule: Rule = "match"
    k: int | None = None
    earlier: Facts | None = None

    @property
    def base(self) -> Metrics:
        """The figures of what stood before."""
        return self.earlier.metrics if self.earlier else Metrics()

    @property
    def state(self) -> Literal["complete", "partial", "interrupted", "failed"]:
        """As stored: failed without a word is `failed`, with some it is `interrupted`."""
        if self.error is not None:
            return "interrupted" if self.text else "failed"
        if self.reason is None:
            return "partial"
        return "interrupted" if self.reason == "cancelled" else "complete"


def fold(live: Live, event: Event) -> Live:
    """The snapshot after `event`."""
    match event:
        case Queued(position):
            return replace(live, stage="waiting", position=position)
        case Started():
            new = event.notice and event.notice not in live.notices
            notices = (*live.notices, event.notice) if new else live.notices
            metrics = joined(live.base, Metrics(event.prompt_tokens, event.reused_tokens))
            return replace(
                live,
                stage="reading",
                text=event.begun,
                trace=cut(live.trace, len(event.begun)),
                position=0,
                phase=None,
                started=event,
                notices=notices,
                metrics=metrics,
                clock=time.monotonic(),
            )
        case Prefill(done, total):
            return replace(live, stage="reading", prefill=(done, total))
        case Round():
            return _round(live, event)
        case Notice(text):
            return replace(live, notices=(*live.notices, text))
        case Finished(reason, metrics, ids, text):
            return replace(
                live,
                stage="done",
                reason=reason,
                metrics=joined(live.base, metrics),
                ids=ids if live.started else live.ids,
                text=text or live.text,
            )
        case Failed(error):
            return replace(live, stage="done", error=error)


def _round(live: Live, event: Round) -> Live:
    pieces = tuple(Piece(event.text[s.start : s.end], s.kind) for s in event.spans)
    live = replace(
        live,
        stage="writing",
        text=live.text + event.text,
        pieces=live.pieces + pieces,
        trace=(*live.trace, note(event)),
        ids=live.ids + event.ids,
    )
    if not event.ids:  # text that was held back; no round of its own
        return live
    before, base = live.metrics, live.base
    first = before.rounds == base.rounds
    waited = time.monotonic() - live.clock if first else before.first_token_s
    come = base.first_round_tokens + len(event.ids) if first else before.first_round_tokens
    metrics = replace(
        before,
        new_tokens=base.new_tokens + event.new_tokens if event.new_tokens else len(live.ids),
        rounds=before.rounds + 1,
        drafted=before.drafted + event.drafted,
        accepted=before.accepted + event.accepted,
        first_token_s=base.first_token_s if base.rounds else waited,
        decode_s=base.decode_s + event.elapsed,
        first_round_tokens=come,
    )
    return replace(live, metrics=metrics)


# --- what is stored with a reply ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Facts:
    """How a reply was made: enough to show it again, and to make it again."""

    metrics: Metrics = field(default_factory=Metrics)
    mode: Mode = "speculative"
    runner: Runner | None = None
    exact: bool = False
    seed: int | None = None
    reason: FinishReason | None = None
    target: str = ""
    draft: str = ""
    dropped_turns: int = 0
    notices: tuple[str, ...] = ()
    error: ErrorInfo | None = None
    rule: Rule = "match"
    k: int | None = None
    prompt: str = ""
    thinking: bool = False


def facts_of(live: Live, target: str = "", draft: str = "") -> Facts:
    """The facts of a snapshot."""
    started = live.started
    if started is None and live.earlier is not None:
        return replace(
            live.earlier,
            metrics=live.metrics,
            notices=live.notices,
            reason=live.reason or live.earlier.reason,
            error=live.error,
        )
    if started is None:
        return Facts(
            live.metrics,
            reason=live.reason,
            notices=live.notices,
            error=live.error,
            rule=live.rule,
            k=live.k,
        )
    return Facts(
        metrics=live.metrics,
        mode=started.mode,
        runner=started.runner,
        exact=started.exact,
        seed=started.seed,
        reason=live.reason,
        target=target,
        draft=draft,
        dropped_turns=started.dropped_turns,
        notices=live.notices,
        error=live.error,
        rule=live.rule,
        k=live.k,
        prompt=started.prompt,
        thinking=started.thinking,
    )


_COUNTERS = frozenset(Metrics.__dataclass_fields__)


def facts_from(metrics: Any, request: Any) -> Facts:
    """Facts from the two JSON columns of a stored reply; what is missing keeps its default."""
    error = request.get("error")
    return Facts(
        metrics=Metrics(**{k: v for k, v in metrics.items() if k in _COUNTERS}),
        mode=request.get("mode", "speculative"),
        runner=request.get("runner"),
        exact=bool(request.get("exact", False)),
        seed=request.get("seed"),
        reason=request.get("reason"),
        target=request.get("target", ""),
        draft=request.get("draft", ""),
        dropped_turns=request.get("dropped_turns", 0),
        notices=tuple(request.get("notices", ())),
        error=ErrorInfo(**error) if error else None,
        rule=request.get("rule", "match"),
        k=request.get("k"),
        prompt=request.get("prompt", ""),
        thinking=bool(request.get("thinking", False)),
    )
