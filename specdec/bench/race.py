"""Lets contenders make the same replies in turn, and says how long it will still take. No torch.

The order turns by one with every prompt and kinds take turns too, so that a slow spell of the
machine hits all alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean
from time import perf_counter

from specdec.bench.sample import Contender, Reply, Sample
from specdec.errors import EngineError

WARM = 6
"""Tokens of the reply to the shortest prompt that warms each contender up and is not counted."""

Tell = Callable[[str], None]
Prompts = Mapping[str, Sequence[tuple[int, ...]]]
Job = tuple[str, int, int, tuple[int, ...]]
"""kind, place of the prompt, run, ids of the prompt."""


def race(
    contenders: Sequence[Contender],
    prompts: Prompts,
    tokens: int,
    runs: int,
    tell: Tell,
    minutes: float | None = None,
    clock: Callable[[], float] = perf_counter,
) -> list[Sample]:
    """Every reply of every contender; fewer prompts of each kind where `minutes` would not do.

    The first prompt of each kind is always made; Ctrl-C ends it with what is complete. Raises
    EngineError for a contender that made too few tokens.
    """
    began = clock()
    turns = list(_turns(prompts, runs))
    left = Left(len(contenders), sum(len(jobs) for jobs in turns))
    every = [prompt for jobs in turns for _, _, _, prompt in jobs]
    short = min(every, key=len)
    longer = fmean(len(prompt) for prompt in every) / len(short)
    for index, contender in enumerate(contenders):
        left.guess(index, contender.reply(short, min(WARM, tokens)), longer, tokens)
    tell(f"warmed up; about {left.text()} to go")
    samples: list[Sample] = []
    try:
        for number, jobs in enumerate(turns):
            spent = clock() - began
            if number and minutes is not None and spent + left.round(len(jobs)) > 60 * minutes:
                tell(f"{number} of {len(turns)} prompts of a kind made; the minutes are used up")
                break
            for job in jobs:
                made = _all(contenders, job, tokens, len(samples) // len(contenders))
                for index, sample in enumerate(made):
                    left.done(index, sample.reply.total_s)
                samples += made
                rates = ", ".join(f"{s.engine} {s.drafter} {s.reply.tok_s:.1f}" for s in made)
                tell(f"{job[0]} {job[1] + 1}: {rates} tok/s; about {left.text()} to go")
    except KeyboardInterrupt:
        if not samples:
            raise
        tell(f"stopped; what follows is of {len(samples)} replies")
    return samples


def _turns(prompts: Prompts, runs: int) -> Iterator[list[Job]]:
    """One prompt of every kind that still has one, run after run."""
    for run in range(runs):
        for place in range(max(len(texts) for texts in prompts.values())):
            yield [
                (kind, place, run, texts[place])
                for kind, texts in prompts.items()
                if place < len(texts)
            ]


def _all(contenders: Sequence[Contender], job: Job, tokens: int, turn: int) -> list[Sample]:
    """The job done by each, begun by the `turn`-th; in the contenders' own order."""
    kind, place, run, prompt = job
    found: dict[int, Sample] = {}
    for offset in range(len(contenders)):
        index = (turn + offset) % len(contenders)
        one = contenders[index]
        reply = one.reply(prompt, tokens)
        if reply.tokens != tokens:
            raise EngineError(
                f"{one.engine} {one.drafter} made {reply.tokens} tokens of {tokens}.",
                "Its rates would not compare; leave it out (--peers), and report this.",
            )
        found[index] = Sample(kind, place, run, one.engine, one.drafter, reply)
    return [found[index] for index in range(len(contenders))]


class Left:
    """Time left: each contender's mean seconds a reply, times the replies it still owes."""

    def __init__(self, contenders: int, replies: int) -> None:
        self._guess = [0.0] * contenders
        self._took: list[list[float]] = [[] for _ in range(contenders)]
        self._replies = replies

    def guess(self, index: int, warm: Reply, longer: float, tokens: int) -> None:
        """From a shorter reply to a prompt, of which the others are so many times as long."""
        rest = (tokens - 1) / warm.tok_s if warm.tok_s else 0.0
        self._guess[index] = longer * warm.first_s + rest

    def done(self, index: int, seconds: float) -> None:
        """One reply of this contender took so long."""
        self._took[index].append(seconds)

    def round(self, prompts: int) -> float:
        """Seconds that all contenders need for so many prompts."""
        return prompts * sum(self._each())

    def seconds(self) -> float:
        """Until all is done."""
        owed = [self._replies - len(took) for took in self._took]
        return sum(n * each for n, each in zip(owed, self._each(), strict=True))

    def text(self) -> str:
        """Seconds or minutes, for a person."""
        left = self.seconds()
        return f"{left:.0f} s" if left < 120 else f"{left / 60:.0f} min"

    def _each(self) -> list[float]:
        pairs = zip(self._took, self._guess, strict=True)
        return [fmean(took) if took else guess for took, guess in pairs]
