"""The benchmark of the page: one at a time, a job in the line, for the owner alone.

It goes on with nobody watching; replies that wait pass between two prompts.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

from app.bench_files import sheet_of
from app.bench_plan import BenchPlan, drafters, in_order, prompts_of
from app.bench_run import Bench
from app.bench_view import BenchView
from app.chats import owner_only
from app.line import Job, Line, watch
from app.loader import Loader
from app.measured import Shelf
from app.series import CHANGED
from app.session import Session
from app.words import tr
from specdec.contract import ChatEngine, ErrorInfo, Pair, Phase
from specdec.errors import BusyError, SettingError, SpecdecError

log = logging.getLogger(__name__)


class Benches:
    """Every method may be called from any thread."""

    def __init__(
        self,
        engine: ChatEngine,
        loader: Loader,
        line: Line,
        shelf: Shelf,
        phase: Callable[[], Phase | None],
    ) -> None:
        self._engine = engine
        self._loader = loader
        self._line = line
        self._shelf = shelf
        self._phase = phase
        self._job: Job[BenchView] | None = None
        self._lock = threading.Lock()

    def drafters(self, session: Session) -> list[tuple[str, str]]:
        """Menu entries (text, id) for the loaded target; none while nothing is loaded.

        Raises SettingError for a guest.
        """
        owner_only(session)
        pair = self._engine.status().pair
        return drafters(pair) if pair is not None else []

    def start(
        self,
        session: Session,
        chosen: Sequence[str],
        kinds: Sequence[str],
        first: int,
        tokens: int,
        runs: int,
    ) -> Job[BenchView]:
        """Measure the chosen drafters on the first prompts of these kinds.

        Raises SettingError for a guest, nothing chosen or nothing loaded; BusyError.
        """
        owner_only(session)
        pair = self._engine.status().pair
        if pair is None:
            raise SettingError(tr("No model is loaded yet."), tr("Start it when one is."))
        plan = BenchPlan(in_order(chosen, pair), prompts_of(kinds, first), tokens, runs)
        with self._lock:
            if self._job is not None and not self._job.done.is_set():
                raise BusyError(tr("A benchmark is already running."), tr("Stop it first."))
            view = BenchView(plan, pair.target.value)
            job: Job[BenchView] = Job("bench", view, lambda job: self._run(job, pair))
            self._line.put(job)
            self._job = job
        return job

    def current(self, session: Session) -> Job[BenchView] | None:
        """The one that runs or waits, or was the last. Raises SettingError for a guest."""
        owner_only(session)
        return self._job

    def stop(self, session: Session) -> None:
        """End it within one round; what was measured stays, and the pair of before comes back.

        Raises SettingError for a guest.
        """
        owner_only(session)
        if self._job is not None:
            self._line.end(self._job, lambda view: replace(view, ended=True, stopped=True))

    def watch(self, job: Job[BenchView]) -> AsyncIterator[BenchView]:
        """The benchmark as it goes, with what it waits for."""

        def look() -> BenchView:
            view = job.snapshot
            if view.doing or job.done.is_set():
                return view
            return replace(view, position=self._line.position(job), phase=self._phase())

        return watch(job, look)

    def _run(self, job: Job[BenchView], asked: Pair) -> None:
        pair = self._engine.status().pair
        if pair != asked:  # a load went before
            job.snapshot = replace(job.snapshot, ended=True, error=CHANGED)
            return
        bench = Bench(self._engine, self._loader, job.snapshot.plan, pair, job, self._line.let_pass)
        try:
            for view in bench.parts(job.snapshot):
                job.snapshot = view
        except Exception as error:
            log.info("a benchmark failed: %s", error, exc_info=not isinstance(error, SpecdecError))
            job.snapshot = replace(job.snapshot, error=ErrorInfo.of(error))
        finally:
            if not self._line.closed:
                for view in bench.bring_back(job.snapshot):
                    job.snapshot = view
            self._end(job)

    def _end(self, job: Job[BenchView]) -> None:
        view = replace(job.snapshot, ended=True, doing="", phase=None, left_s=None)
        if any(part.samples for part in view.parts):
            versions = self._engine.status().versions
            view = replace(view, sheet=self._shelf.put(sheet_of(view, versions)))
        job.snapshot = view
