"""Speculative against plain ids on one loaded pair, with the outcomes of rounds counted.

A run that never saw full, partial and zero acceptance has shown nothing (A39).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from specdec import prompt_sets
from specdec.contract import Runner, Sampling
from specdec.drafters.base import Drafter
from specdec.drafters.none import NoDrafter
from specdec.session import Session
from specdec.trial import make_task, outcome, say
from tests.fakes import Proposing

CHANGING = (3, 7, 0, 1, 5, 2)
LENGTHS: tuple[tuple[int, ...], ...] = ((1,), (2,), (4,), (7,), CHANGING)


def prompts(count: int) -> list[str]:
    """`count` prompts, kinds taken in turn."""
    kinds = [prompt_sets.load(kind) for kind in prompt_sets.kinds()]
    mixed = [text for row in itertools.zip_longest(*kinds) for text in row if text]
    return mixed[:count]


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
        _, cached = self.session.scorer(self.runner)
        cached.forget()
        task = make_task(self.session, text, sampling)
        said = say(self.session, cached.scorer, task, drafter, ks)
        self.seen.update(outcome(*pair) for pair in said.outcomes)
        return said.ids

    def compare(
        self,
        text: str,
        sampling: Sampling,
        drafters: Sequence[Drafter],
        lengths: Sequence[Sequence[int]],
        spoilt: bool = False,
    ) -> None:
        """Every drafter at every length says what plain decoding says.

        `spoilt` adds one that proposes the plain reply with wrong tokens in it.
        """
        plain = self.reply(text, sampling, NoDrafter(), (0,))
        start = len(make_task(self.session, text, sampling).prompt)
        more = [_spoilt(plain, start)] if spoilt else []
        for drafter, ks in itertools.product([*drafters, *more], lengths):
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


def _spoilt(reply: tuple[int, ...], start: int) -> Proposing:
    """Proposes what is to come, wrong at the first, second or third place."""

    def script(tokens: Sequence[int], k: int) -> list[int]:
        at = len(tokens) - start
        ids = list(reply[at : at + k])
        if (wrong := at % 3) < len(ids):
            ids[wrong] = ids[wrong] + 1 if ids[wrong] == 0 else ids[wrong] - 1
        return ids

    return Proposing(script)
