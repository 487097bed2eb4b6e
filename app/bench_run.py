"""Runs a benchmark: part by part a draft is loaded and timed beside plain decoding.

As `specdec bench`: warm-up, kinds in turn, an order that turns with every prompt. Through the
engine's contract alone, so a reply may end where the model ends it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from statistics import fmean

from app.bench_plan import BenchPlan
from app.bench_view import PLAINS, BenchView, Part
from app.loader import Loader
from app.race_card import public
from app.series import CHANGED
from app.timing import VANISHED, Timed, timed
from app.words import tr
from specdec.bench.plan import OWN
from specdec.bench.race import WARM
from specdec.bench.sample import PLAIN, PLAIN_FAST, Sample
from specdec.contract import Cancel, ChatEngine, ChatRequest, ErrorInfo, Message, NeverCancel, Pair
from specdec.pairing import NONE


class Bench:
    """One benchmark over the pair that is loaded when it is made. `between` lets others pass."""

    def __init__(
        self,
        engine: ChatEngine,
        loader: Loader,
        plan: BenchPlan,
        before: Pair,
        cancel: Cancel,
        between: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._loader = loader
        self._plan = plan
        self._before = before
        self._kept = (loader.wanted, loader.error)
        self._cancel = cancel
        self._between = between
        self._clock = clock
        loads = sum(name not in (before.draft.value, NONE) for name in plan.parts)
        self._pace = _Pace(loads + bool(loads))

    def parts(self, view: BenchView) -> Iterator[BenchView]:
        """Snapshots until all is measured, it was stopped, or an error ended it. A draft that
        cannot be loaded or fails is noted in its part, and the next one has its turn."""
        for drafter in self._plan.parts:
            view = yield from self._part(view, drafter)
            yield view
            if view.stopped or view.error is not None:
                return

    def bring_back(self, view: BenchView) -> Iterator[BenchView]:
        """Load the pair of the beginning again, unless it is there, or somebody chose another."""
        if view.error == CHANGED:
            return
        self._loader.wanted, self._loader.error = self._kept
        if self._engine.status().pair == self._before:
            return
        error: ErrorInfo | None = None
        target, draft = self._before.target.value, self._before.draft.value
        for load in self._loader.lend(target, draft, NeverCancel()):
            error = load.error
            yield replace(view, doing=tr("Bringing back what was loaded"), phase=load.phase)
        if error is not None:
            yield replace(view, phase=None, error=error)

    def _part(self, view: BenchView, drafter: str) -> Generator[BenchView, None, BenchView]:
        done, end = view.parts, view.step + len(list(self._plan.turns()))
        view, part = yield from self._load(view, drafter)
        if view.stopped:
            return view
        if part.error is not None or part.pair is None:
            return replace(view, parts=(*done, part), step=end)
        view = replace(view, doing=tr("{name}: warming up", name=public(drafter)))
        yield view
        names = self._contenders(drafter)
        turns = [("", 0, 0, self._shortest()), *self._plan.turns()]  # the first warms up
        for number, (kind, place, run, text) in enumerate(turns):
            said = f"{kind} {place + 1}" if number else tr("warming up")
            left = self._pace.left(self._plan.steps - view.step)
            view = replace(view, doing=f"{public(drafter)}: {said}", left_s=left)
            yield view
            self._between()
            if (pair := self._engine.status().pair) != part.pair:
                return replace(view, error=VANISHED if pair is None else CHANGED)
            began = self._clock()
            for offset in range(len(names)):
                name = names[(number + offset) % len(names)]
                made = self._made(name, text, self._plan.tokens if number else WARM)
                if made.cancelled or self._cancel.is_set():
                    return replace(view, stopped=True)
                if made.reply is None:
                    part = replace(part, error=made.error)
                    return replace(view, parts=(*done, part), step=end)
                if number:
                    sample = Sample(kind, place, run, OWN, public(name), made.reply)
                    part = replace(part, samples=(*part.samples, sample))
            if number:
                self._pace.prompts.append(self._clock() - began)
                view = replace(view, parts=(*done, part), step=view.step + 1)
                yield view
        return view

    def _load(
        self, view: BenchView, drafter: str
    ) -> Generator[BenchView, None, tuple[BenchView, Part]]:
        """A part with the pair, or with the reason why there is none."""
        pair, error = self._engine.status().pair, None
        if pair is None or drafter not in (pair.draft.value, NONE):
            began = self._clock()
            view = replace(view, doing=tr("Loading {name}", name=public(drafter)))
            for load in self._loader.lend(view.target, drafter, self._cancel):
                pair, error = load.pair, load.error
                left = self._pace.left(self._plan.steps - view.step)
                view = replace(view, phase=load.phase, left_s=left)
                yield view
            self._pace.loads.append(self._clock() - began)
        if pair is not None and drafter not in (pair.draft.value, NONE):
            error = ErrorInfo(
                "LoadError", tr("It cannot draft here: {why}.", why=pair.draft.reason)
            )
        view = replace(view, phase=None, stopped=self._cancel.is_set())
        return view, Part(drafter, pair, (), error)

    def _contenders(self, drafter: str) -> list[str]:
        """As `specdec bench` calls them; the second plain one only where it is another runner."""
        serving = self._made(PLAIN, self._shortest(), 2).runner  # known by asking
        plain = [PLAIN, PLAIN_FAST] if serving == "static" else [PLAIN]
        return plain if drafter == NONE else [*plain, drafter]

    def _shortest(self) -> str:
        return min((text for texts in self._plan.prompts.values() for text in texts), key=len)

    def _made(self, name: str, text: str, tokens: int) -> Timed:
        request = ChatRequest(
            (Message("user", text),),
            replace(self._plan.sampling, max_tokens=tokens),
            mode="standard" if name in PLAINS else "speculative",
            runner="fast" if name == PLAIN_FAST else "auto",
            fresh=True,
        )
        return timed(self._engine, request, self._cancel)


@dataclass(slots=True)
class _Pace:
    """Seconds that prompts and loads took so far."""

    owed: int  # loads in all
    prompts: list[float] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)

    def left(self, steps: int) -> float | None:
        """Seconds for so many prompts and the loads still owed; None before one was timed."""
        if not self.prompts:
            return None
        owed = max(0, self.owed - len(self.loads))
        return steps * fmean(self.prompts) + (owed * fmean(self.loads) if self.loads else 0.0)
