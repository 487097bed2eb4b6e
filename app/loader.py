"""Loads a pair and remembers which; after a failed switch it goes back to the pair before.

Knows nothing of pages or replies. Runs in the worker only.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace

from app.line import Job
from app.settings import SettingsFile
from app.words import marked
from specdec.contract import (
    Cancel,
    ChatEngine,
    ErrorInfo,
    Failed,
    Loaded,
    NeverCancel,
    Pair,
    Phase,
)
from specdec.errors import SpecdecError


@dataclass(frozen=True, slots=True)
class LoadView:
    """`error` is why the pair asked for was not loaded; `pair` may then be the one before."""

    target: str | None = None
    draft: str | None = None
    phase: Phase | None = None
    pair: Pair | None = None
    error: ErrorInfo | None = None
    notice: str = ""


class Loader:
    """`wanted` is what the next load takes: (target, draft), None = chosen for this machine."""

    def __init__(self, engine: ChatEngine, settings: SettingsFile) -> None:
        self._engine = engine
        self._settings = settings
        self.wanted: tuple[str | None, str | None] = (
            settings.settings.target,
            settings.settings.draft,
        )
        self.error: ErrorInfo | None = None  # of the last load; None once one succeeds
        self._before: Pair | None = None  # what a load that was superseded had ended

    def switch(self, target: str | None, draft: str | None, job: Job[LoadView]) -> None:
        """Load a pair; when it fails and nothing is left loaded, load the one before again.

        A job that is stopped was superseded: it ends at once, and the next one sees to the rest.
        """
        before = self._engine.status().pair or self._before
        self._before = None
        self.wanted = (target, draft)
        if self._run(job):
            self._remember(job)
            return
        if before is None:
            return
        if job.snapshot.error == SUPERSEDED or not self._go_back(before, job):
            self._before = before

    def lend(self, target: str, draft: str, cancel: Cancel) -> Iterator[LoadView]:
        """Load a pair for a while: what is wanted after, and what the settings keep, stay."""
        wanted = self.wanted
        self.wanted = (target, draft)
        try:
            yield from self._load(cancel)
        finally:
            self.wanted = wanted

    def ensure(self, show: Callable[[Phase], None]) -> ErrorInfo | None:
        """Load what is wanted when nothing is loaded; the error when that fails."""
        if self._engine.status().pair is not None:
            return None
        for view in self._load(NeverCancel()):
            if view.phase:
                show(view.phase)
        return view.error

    def unload(self, job: Job[LoadView]) -> None:
        """Give the memory back. What was loaded stays wanted: the next message loads it again."""
        pair = self._engine.status().pair
        if pair is not None:
            self.wanted = (pair.target.value, pair.draft.value)
        try:
            self._engine.unload()
        except Exception as error:
            job.snapshot = replace(job.snapshot, error=ErrorInfo.of(error))

    def _go_back(self, before: Pair, job: Job[LoadView]) -> bool:
        """See that the pair before is loaded; False when it was superseded on the way."""
        self.wanted = (before.target.value, before.draft.value)
        error, pair = job.snapshot.error, self._engine.status().pair
        if pair is None:
            self._run(job)
            if job.snapshot.error == SUPERSEDED:
                return False
            pair = job.snapshot.pair
        self.error = error
        job.snapshot = replace(job.snapshot, error=error, pair=pair, phase=None)
        return True

    def _run(self, job: Job[LoadView]) -> bool:
        for view in self._load(job):
            job.snapshot = view
        return job.snapshot.error is None

    def _load(self, cancel: Cancel) -> Iterator[LoadView]:
        target, draft = self.wanted
        view = LoadView(target, draft, Phase("starting"))
        yield view
        try:
            events = self._engine.load(target, draft)
            for event in events:
                match event:
                    case Phase():
                        view = replace(view, phase=event)
                    case Loaded(pair):
                        view = replace(view, phase=None, pair=pair)
                    case Failed(error):
                        view = replace(view, phase=None, error=error)
                yield view
                if cancel.is_set() and view.phase is not None:
                    if isinstance(events, Generator):
                        events.close()  # the engine hears of it now, not when memory is swept
                    yield replace(view, phase=None, error=SUPERSEDED)
                    return
        except Exception as error:
            view = replace(view, phase=None, error=ErrorInfo.of(error))
        if view.pair is None and view.error is None:
            view = replace(view, phase=None, error=_VANISHED)
        self.error = view.error
        yield view

    def _remember(self, job: Job[LoadView]) -> None:
        settings = self._settings.settings
        target, draft = self.wanted
        if (settings.target, settings.draft) == (target, draft):
            return
        try:
            self._settings.save(settings.model_copy(update={"target": target, "draft": draft}))
        except SpecdecError as error:
            job.snapshot = replace(job.snapshot, notice=str(error))


SUPERSEDED = ErrorInfo(
    "EngineError", marked("Another model was chosen."), marked("That one is loaded instead.")
)
_VANISHED = ErrorInfo(
    "EngineError",
    marked("The engine stopped while loading."),
    marked("Load again, or choose a smaller model."),
)
