"""Several races in a row, and what they come to. Pure but for the engine that `race` asks.

Every race keeps the rules of `race`; nothing is added up that was not measured to its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from app.desk import MAX_MESSAGE, Options
from app.loader import Loader
from app.race import Outcome, RaceView, race
from app.race_prompts import Prompt
from app.words import marked, tr
from specdec.contract import Cancel, ChatEngine, ErrorInfo, Mode, Pair
from specdec.errors import SettingError
from specdec.metrics import Metrics

MOST_RUNS = 20
MOST_RACES = 100
"""More would be a benchmark: there is a tab for that."""
CHANGED = ErrorInfo(
    "SettingError",
    marked("Another model was loaded meanwhile."),
    marked("What was measured before it is kept."),
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is raced. `order` is that of the first race; `past` is what its only race goes on."""

    prompts: tuple[Prompt, ...]
    runs: int
    order: tuple[Mode, Mode]
    options: Options
    past: tuple[RaceView, ...] = ()

    def __post_init__(self) -> None:
        """Raises SettingError for too many races, or a text no model could read."""
        if not 1 <= self.runs <= MOST_RUNS:
            raise SettingError(
                tr("{runs} runs were asked for.", runs=self.runs),
                tr("Take 1 to {n}.", n=MOST_RUNS),
            )
        if self.races > MOST_RACES:
            raise SettingError(
                tr("That would be {races} races.", races=self.races),
                tr(
                    "At most {n} are run in a row: take fewer prompts or runs.",
                    n=MOST_RACES,
                ),
            )
        if any(len(prompt.text) > MAX_MESSAGE for prompt in self.prompts):
            raise SettingError(
                tr("A prompt is too long."),
                tr("At most {n} characters.", n=f"{MAX_MESSAGE:,}"),
            )

    @property
    def races(self) -> int:
        return len(self.prompts) * self.runs

    def turns(self) -> Iterator[tuple[int, int, tuple[Mode, Mode]]]:
        """(place of the prompt, run, order): run after run; the order alternates for each prompt
        from run to run, and from prompt to prompt within one."""
        first, second = self.order
        for run in range(self.runs):
            for place in range(len(self.prompts)):
                yield place, run, (first, second) if (place + run) % 2 == 0 else (second, first)


@dataclass(frozen=True, slots=True)
class Ran:
    """One race that came to its end."""

    place: int
    run: int
    order: tuple[Mode, Mode]
    outcome: Outcome
    speculative: Metrics
    standard: Metrics

    @property
    def saved_s(self) -> float | None:
        """Seconds that the speculative lane decoded less than the faster plain runner would have
        for as many tokens; below 0 where it took longer. None: too short to time."""
        if self.outcome.ratio is None:
            return None
        mine = self.speculative
        return (mine.new_tokens - mine.first_round_tokens) / self.outcome.baseline - mine.decode_s


@dataclass(frozen=True, slots=True)
class SeriesView:
    """A series as it goes. `now` is the race that runs, or the last one.

    `left_s` is a guess from the races before; `pair` and `seed` are every race's; `sheet` is where
    the card is kept once it is over.
    """

    plan: Plan
    now: RaceView
    done: tuple[Ran, ...] = ()
    left_s: float | None = None
    pair: Pair | None = None
    ended: bool = False
    stopped: bool = False
    error: ErrorInfo | None = None
    sheet: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """Of `races`, `timed` were long enough: ratios are theirs. `identical` of `compared` were.

    `tokens` were compared in all, each with its fellow.
    """

    races: int
    timed: int
    ratio: float | None
    lowest: float | None
    highest: float | None
    tok_s: float
    baseline: float
    tokens_per_round: float
    saved_s: float
    drafted: int
    accepted: int
    identical: int
    compared: int
    tokens: int


def summary(done: Sequence[Ran]) -> Summary | None:
    """What the races come to; None before the first is over."""
    if not done:
        return None
    timed = [ran for ran in done if ran.outcome.ratio is not None]
    ratios = sorted(ran.outcome.ratio for ran in done if ran.outcome.ratio is not None)
    rounds = sum(ran.speculative.rounds for ran in done)
    compared = [ran.outcome for ran in done if ran.outcome.comparable]
    return Summary(
        races=len(done),
        timed=len(timed),
        ratio=median(ratios) if ratios else None,
        lowest=ratios[0] if ratios else None,
        highest=ratios[-1] if ratios else None,
        tok_s=median(ran.speculative.tok_s for ran in timed) if timed else 0.0,
        baseline=median(ran.outcome.baseline for ran in timed) if timed else 0.0,
        tokens_per_round=(
            sum(ran.speculative.new_tokens for ran in done) / rounds if rounds else 0.0
        ),
        saved_s=sum(ran.saved_s or 0.0 for ran in timed),
        drafted=sum(ran.speculative.drafted for ran in done),
        accepted=sum(ran.speculative.accepted for ran in done),
        identical=sum(outcome.identical for outcome in compared),
        compared=len(compared),
        tokens=sum(outcome.compared for outcome in compared),
    )


def beginning(plan: Plan) -> SeriesView:
    """Before anything ran."""
    options = plan.options
    seed = options.sampling.seed or 0
    text = plan.prompts[0].text
    return SeriesView(
        plan, RaceView(text, plan.order, seed=seed, rule=options.rule, past=plan.past)
    )


def series(
    engine: ChatEngine,
    loader: Loader,
    plan: Plan,
    cancel: Cancel,
    between: Callable[[], None],
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[SeriesView]:
    """Snapshots to the end; the last has `ended`. `between` lets others pass between two races.

    `plan` has a seed. A race that was stopped or failed ends the series and counts nothing.
    """
    view = beginning(plan)
    took: list[float] = []
    for number, (place, run, order) in enumerate(plan.turns()):
        if number:
            between()
            if cancel.is_set():
                yield replace(view, ended=True, stopped=True)
                return
            if engine.status().pair != view.pair:
                yield replace(view, ended=True, error=CHANGED)
                return
        began = clock()
        each = fmean(took) if took else None
        prompt = plan.prompts[place].text
        for now in race(engine, loader, prompt, plan.options, order, cancel, plan.past):
            left = each and max(0.0, each * (plan.races - number) - (clock() - began))
            view = replace(view, now=now, left_s=left)
            yield view
        if view.now.outcome is None:
            yield replace(view, ended=True, stopped=view.now.stopped, error=view.now.error)
            return
        took.append(clock() - began)
        ran = _ran(view.now, place, run)
        view = replace(view, done=(*view.done, ran), pair=engine.status().pair)
    yield replace(view, ended=True, left_s=None)


def _ran(now: RaceView, place: int, run: int) -> Ran:
    if now.outcome is None or now.speculative is None or now.standard is None:
        raise ValueError("a race counts when both lanes are done")
    return Ran(place, run, now.order, now.outcome, now.speculative.metrics, now.standard.metrics)
