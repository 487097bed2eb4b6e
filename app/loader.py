"""Loads a pair and remembers which; after a failed switch it goes back to the pair before.

Knows nothing of pages or replies. Runs in the worker only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from app.line import Job
from app.settings import SettingsFile
from specdec.contract import ChatEngine, ErrorInfo, Failed, Loaded, Pair, Phase
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

    def switch(self, target: str | None, draft: str | None, job: Job[LoadView]) -> None:
        """Load a pair; when it fails and nothing is left loaded, load the one before again."""
        before = self._engine.status().pair
        self.wanted = (target, draft)
        if self._run(job):
            self._remember(job)
            return
        if before is not None:
            self.wanted = (before.target.value, before.draft.value)
            error = job.snapshot.error
            pair = self._engine.status().pair
            if pair is None:
                self._run(job)
                pair = job.snapshot.pair
            self.error = error
            job.snapshot = replace(job.snapshot, error=error, pair=pair, phase=None)

    def ensure(self, show: Callable[[Phase], None]) -> ErrorInfo | None:
        """Load what is wanted when nothing is loaded; the error when that fails."""
        if self._engine.status().pair is not None:
            return None
        for view in self._load():
            if view.phase:
                show(view.phase)
        return view.error

    def _run(self, job: Job[LoadView]) -> bool:
        for view in self._load():
            job.snapshot = view
        return job.snapshot.error is None

    def _load(self) -> Iterator[LoadView]:
        target, draft = self.wanted
        view = LoadView(target, draft, Phase("starting"))
        yield view
        try:
            for event in self._engine.load(target, draft):
                match event:
                    case Phase():
                        view = replace(view, phase=event)
                    case Loaded(pair):
                        view = replace(view, phase=None, pair=pair)
                    case Failed(error):
                        view = replace(view, phase=None, error=error)
                yield view
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


_VANISHED = ErrorInfo(
    "EngineError", "The engine stopped while loading.", "Load again, or choose a smaller model."
)
