"""Speculative against plain ids on one loaded pair, with the outcomes of rounds counted.

A run that never saw full, partial and zero acceptance has shown nothing (A39).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from specdec import prompt_sets
from specdec.contract import Finished, Message, NeverCancel, Runner, Sampling
from specdec.detokenize import TextStream
from specdec.drafters.base import Drafter
from specdec.drafters.none import NoDrafter
from specdec.drafters.plan import Moment, Plan
from specdec.noise import Noise
from specdec.session import Session
from specdec.turn import Task, Turn

CHANGING = (3, 7, 0, 1, 5, 2)
LENGTHS: tuple[tuple[int, ...], ...] = ((1,), (2,), (4,), (7,), CHANGING)


def prompts(count: int) -> list[str]:
    """`count` prompts, kinds taken in turn."""
    kinds = [prompt_sets.load(kind) for kind in prompt_sets.kinds()]
    mixed = [text for row in itertools.zip_longest(*kinds) for text in row if text]
    return mixed[:count]


class Cycle:
    """These draft lengths in turn, one a round."""

    def __init__(self, ks: Sequence[int]) -> None:
        self._ks: Iterator[int] = itertools.cycle(ks)
        self.outcomes: list[tuple[int, int]] = []

    def choose(self, moment: Moment) -> Plan:
        return Plan(next(self._ks))

    def learn(self, kind: str, drafted: int, accepted: int) -> None:
        self.outcomes.append((drafted, accepted))


@dataclass
class Exactness:
    """Runs replies in one runner, each from an empty cache, and keeps count."""

    session: Session
    runner: Runner
    seen: Counter[str] = field(default_factory=Counter)
    replies: int = 0
    tokens: int = 0

    def reply(
        self, text: str, sampling: Sampling, drafter: Drafter, ks: Sequence[int]
    ) -> tuple[int, ...]:
        prompt = self.session.prompts.build([Message("user", text)], 2000).ids
        _, cached = self.session.scorer(self.runner)
        cached.keep_prefix(prompt, fresh=True)
        drafter.begin(())
        noise = Noise.of(sampling.seed or 0, prompt)
        task = Task(prompt, sampling, "match", noise, self.session.end_ids, 4096)
        length = Cycle(ks)
        turn = Turn(task, cached.scorer, drafter, length, TextStream(self.session.decode))
        last = list(turn.run(NeverCancel()))[-1]
        assert isinstance(last, Finished)
        for drafted, accepted in length.outcomes:
            if not drafted:
                continue
            kind = "full" if accepted == drafted else "partial" if accepted else "zero"
            self.seen[kind] += 1
        return last.ids

    def compare(
        self,
        text: str,
        sampling: Sampling,
        drafters: Sequence[Drafter],
        lengths: Sequence[Sequence[int]],
    ) -> None:
        """Every drafter at every length says what plain decoding says."""
        plain = self.reply(text, sampling, NoDrafter(), (0,))
        for drafter, ks in itertools.product(drafters, lengths):
            said = self.reply(text, sampling, drafter, ks)
            self.replies += 1
            self.tokens += len(said)
            assert said == plain, (text, sampling.temperature, drafter.name, ks)

    def enough(self) -> None:
        """At least 20 rounds of each outcome."""
        print(
            f"{self.runner}: {self.replies} replies, {self.tokens} tokens, rounds {dict(self.seen)}"
        )
        for kind in ("full", "partial", "zero"):
            assert self.seen[kind] >= 20, self.seen
