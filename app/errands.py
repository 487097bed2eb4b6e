"""Replies for other programs: made by the same worker in the same queue, and stored nowhere.

Knows the engine and the line; nothing of HTTP.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from dataclasses import dataclass, replace

from app.guests import Guests
from app.line import OWNER, Job, Line, watch
from app.live import Live, fold
from app.loader import Loader
from app.replies import run
from specdec.contract import ChatEngine, ChatRequest, ErrorInfo, Failed, Phase
from specdec.errors import PromptError, SpecdecError, UnknownModelError

LINGER_S = 15.0
"""How long a reply goes on that nobody watches: a caller that went away says so, mostly."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Errand:
    """A reply somebody waits for. `seen`: when it was last looked at."""

    job: Job[Live]
    seen: float


class Errands:
    """Every method may be called from any thread."""

    def __init__(
        self,
        engine: ChatEngine,
        loader: Loader,
        line: Line,
        live: Callable[[Job[Live]], Live],
        guests: Guests,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._loader = loader
        self._line = line
        self._live = live
        self._guests = guests
        self._clock = clock

    def put(self, model: str, request: ChatRequest, who: str = OWNER) -> Errand:
        """Queue it. Raises UnknownModelError for another model than is loaded, BusyError."""
        self._guests.ask(who)
        request = replace(request, sampling=self._guests.cut(who, request.sampling))
        if (wrong := self._other(model)) is not None:
            raise wrong
        errand: Errand | None = None

        def gone() -> bool:
            return errand is not None and self._clock() - errand.seen > LINGER_S

        job: Job[Live] = Job(
            "reply",
            Live(rule=request.rule, k=request.k),
            lambda job: self._make(model, request, job),
            gone,
            who,
        )
        errand = Errand(job, self._clock())
        self._line.put(job)
        return errand

    async def watch(self, errand: Errand) -> AsyncIterator[Live]:
        """The reply as it grows, what it waits for included; the last one is done."""

        def look() -> Live:
            errand.seen = self._clock()
            return self._live(errand.job)

        async for live in watch(errand.job, look):
            yield live

    def end(self, errand: Errand) -> None:
        """Nobody wants it any more: it ends within one round."""
        self._line.end(errand.job, lambda now: replace(now, stage="done", reason="cancelled"))

    def _make(self, model: str, request: ChatRequest, job: Job[Live]) -> None:
        def show(phase: Phase) -> None:
            job.snapshot = replace(job.snapshot, stage="loading", phase=phase)

        try:
            if (error := self._loader.ensure(show)) is not None:
                raise error.revive()
            if (wrong := self._other(model)) is not None:
                raise wrong
            with closing(run(self._engine, request, job)) as snapshots:
                for live in snapshots:
                    _check_whole(live)
                    job.snapshot = live
        except Exception as error:
            unknown = not isinstance(error, SpecdecError)
            log.info("a reply for another program failed: %s", error, exc_info=unknown)
            job.snapshot = fold(job.snapshot, Failed(ErrorInfo.of(error)))

    def _other(self, model: str) -> UnknownModelError | None:
        pair = self._engine.status().pair
        if pair is None or model == pair.target.value:
            return None
        return UnknownModelError(
            f"The model {model!r} is not loaded.", f"{pair.target.value!r} is: ask for that."
        )


def _check_whole(live: Live) -> None:
    """Whoever sends a conversation counts on all of it; a page says what was left out."""
    if live.started is not None and (dropped := live.started.dropped_turns):
        turns = "turn does" if dropped == 1 else "turns do"
        raise PromptError(
            f"The conversation is too long: its oldest {dropped} {turns} not fit.",
            "Send fewer messages, or load a model with a longer context.",
        )
