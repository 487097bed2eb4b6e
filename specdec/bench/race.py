"""Lets contenders make the same replies in turn, and says how long it will still take. No torch.

The order turns by one with every prompt, so that a slow spell of the machine hits all alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean

from specdec.bench.sample import Contender, Reply, Sample
from specdec.errors import EngineError

WARM = 6
"""Tokens of the reply that warms each contender up and is not counted."""

Tell = Callable[[str], None]
Prompts = Mapping[str, Sequence[tuple[int, ...]]]


def race(
    contenders: Sequence[Contender], prompts: Prompts, tokens: int, runs: int, tell: Tell
) -> list[Sample]:
    """Every reply of every contender. Raises EngineError for one that made too few tokens."""
    clock = Left(len(contenders), runs * sum(len(texts) for texts in prompts.values()))
    first = next(iter(prompts.values()))[0]
    for index, contender in enumerate(contenders):
        warm = contender.reply(first, min(WARM, tokens))
        clock.guess(index, warm, tokens)
    tell(f"warmed up; about {clock.text()} to go")
    samples = []
    for turn, (kind, place, run, prompt) in enumerate(_jobs(prompts, runs)):
        for offset in range(len(contenders)):
            index = (turn + offset) % len(contenders)
            contender = contenders[index]
            reply = contender.reply(prompt, tokens)
            if reply.tokens != tokens:
                raise EngineError(
                    f"{contender.engine} {contender.drafter} made {reply.tokens} tokens"
                    f" where {tokens} were asked for.",
                    "Its rates would not compare; leave it out (--peers), and report this.",
                )
            clock.done(index, reply.total_s)
            samples.append(Sample(kind, place, run, contender.engine, contender.drafter, reply))
        told = "; ".join(
            f"{s.engine} {s.drafter} {s.reply.tok_s:.1f}" for s in samples[-len(contenders) :]
        )
        tell(f"{kind} {place + 1}: tok/s {told}; about {clock.text()} to go")
    return samples


def _jobs(prompts: Prompts, runs: int) -> Iterator[tuple[str, int, int, tuple[int, ...]]]:
    for kind, texts in prompts.items():
        for place, prompt in enumerate(texts):
            for run in range(runs):
                yield kind, place, run, prompt


class Left:
    """Time left: each contender's mean seconds a reply, times the replies it still owes."""

    def __init__(self, contenders: int, replies: int) -> None:
        self._guess = [0.0] * contenders
        self._took: list[list[float]] = [[] for _ in range(contenders)]
        self._replies = replies

    def guess(self, index: int, warm: Reply, tokens: int) -> None:
        """From the first, shorter reply."""
        rest = (tokens - 1) / warm.tok_s if warm.tok_s else 0.0
        self._guess[index] = warm.first_s + rest

    def done(self, index: int, seconds: float) -> None:
        """One reply of this contender took so long."""
        self._took[index].append(seconds)

    def seconds(self) -> float:
        return sum(
            (self._replies - len(took)) * (fmean(took) if took else guess)
            for took, guess in zip(self._took, self._guess, strict=True)
        )

    def text(self) -> str:
        left = self.seconds()
        return f"{left:.0f} s" if left < 120 else f"{left / 60:.0f} min"
