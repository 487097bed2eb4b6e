"""Takes races in and hands them out: one series a tab, as one job in the line. Never stored.

Knows the engine and the line; nothing of pages.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from app.desk import Options
from app.guests import Guests
from app.line import OWNER, Job, Line, watch
from app.loader import Loader
from app.measured import Shelf
from app.race_card import card_of, sheet_of
from app.race_prompts import Prompt, cut
from app.series import Plan, SeriesView, beginning, series
from app.session import Session
from app.words import tr
from specdec.contract import ChatEngine, ErrorInfo, Mode, Phase
from specdec.errors import SettingError


class RaceDesk:
    """Every method may be called from any thread."""

    def __init__(
        self,
        engine: ChatEngine,
        loader: Loader,
        line: Line,
        shelf: Shelf,
        gone: Callable[[Session], bool],
        phase: Callable[[], Phase | None],
        guests: Guests,
    ) -> None:
        self._engine = engine
        self._loader = loader
        self._line = line
        self._shelf = shelf
        self._gone = gone
        self._phase = phase
        self._guests = guests
        self._jobs: dict[str, Job[SeriesView]] = {}  # by session key
        self._left: Job[SeriesView] | None = None  # the owner's, whose tab left last

    def start(
        self, session: Session, text: str, options: Options, order: tuple[Mode, Mode], runs: int = 1
    ) -> Job[SeriesView]:
        """Both modes on the prompts of a text, so many times each, in place of this tab's race.

        Raises SettingError where there is no prompt, too much is asked, or a guest asks for more
        than one race; BusyError.
        """
        sampling = options.sampling
        if sampling.seed is None:  # one for all: runs of a prompt then differ in time alone
            sampling = replace(sampling, seed=secrets.randbelow(2**31))
        plan = Plan(cut(text), runs, order, replace(options, sampling=sampling))
        if plan.races > 1 and session.role != "owner":
            raise SettingError(
                tr("A guest runs one race at a time."), tr("Take one prompt and one run.")
            )
        return self._put(session, plan)

    def go_on(self, session: Session, text: str) -> Job[SeriesView]:
        """The next message of this tab's race, sent to both lanes, each with its own words before.

        Raises SettingError for an empty one, or where no race came to its end; BusyError.
        """
        if not text.strip():
            raise SettingError(tr("The message is empty."), tr("Write something first."))
        job = self._jobs.get(session.key)
        last = job.snapshot if job is not None and job.done.is_set() else None
        if last is None or last.now.outcome is None:
            raise SettingError(
                tr("No race is over here."), tr("Run one first, then go on with it.")
            )
        past = (*last.now.past, replace(last.now, past=()))
        order = (last.now.order[1], last.now.order[0])
        return self._put(session, Plan((Prompt(text.strip()),), 1, order, last.plan.options, past))

    def watch(self, job: Job[SeriesView]) -> AsyncIterator[SeriesView]:
        """The series as it goes, with what it waits for."""

        def look() -> SeriesView:
            view = job.snapshot
            if view.now.step != "waiting" or job.done.is_set():
                return view
            at = replace(view.now, position=self._line.position(job), phase=self._phase())
            return replace(view, now=at)

        return watch(job, look)

    def stop(self, session: Session) -> None:
        """End it within one round; the races that were over stay."""
        job = self._jobs.get(session.key)
        if job is not None:
            self._line.end(job, _over)

    def leave(self, key: str) -> None:
        """The tab was closed, or is being loaded anew: the owner's race waits to be taken back.

        It ends when no tab of the owner's comes for a while (`gone`); a guest's ends now, for a tab
        loaded anew is another guest.
        """
        job = self._jobs.pop(key, None)
        if job is not None and job.who == OWNER:
            self._left = job
        elif job is not None:
            job.stop()

    def back(self, session: Session) -> Job[SeriesView] | None:
        """This tab's race, running or over; an owner's new tab takes the one that was left."""
        if session.who == OWNER and session.key not in self._jobs and self._left is not None:
            self._jobs[session.key], self._left = self._left, None
        return self._jobs.get(session.key)

    def _put(self, session: Session, plan: Plan) -> Job[SeriesView]:
        self.stop(session)
        self._line.check_room(session.who)
        self._guests.ask(session.who)
        sampling = self._guests.cut(session.who, plan.options.sampling)
        plan = replace(plan, options=replace(plan.options, sampling=sampling))

        def run(job: Job[SeriesView]) -> None:
            try:
                for view in series(self._engine, self._loader, plan, job, self._line.let_pass):
                    job.snapshot = view
            except Exception as error:
                failed = ErrorInfo.of(error)
                now = replace(job.snapshot.now, step="done", error=failed)
                job.snapshot = replace(job.snapshot, now=now, ended=True, error=failed)
                raise
            finally:
                self._keep(session, job)

        job: Job[SeriesView] = Job(
            "race", beginning(plan), run, gone=lambda: self._gone(session), who=session.who
        )
        self._line.put(job)
        self._jobs[session.key] = job
        return job

    def _keep(self, session: Session, job: Job[SeriesView]) -> None:
        """Put what was measured on the shelf; a turn of a conversation has no card of its own."""
        view = job.snapshot
        if session.role == "owner" and view.done and not view.plan.past:
            card = card_of(view, self._engine.status().versions)
            job.snapshot = replace(view, sheet=self._shelf.put(sheet_of(card)))


def _over(view: SeriesView) -> SeriesView:
    now = replace(view.now, step="done", stopped=True)
    return replace(view, now=now, ended=True, stopped=True)
