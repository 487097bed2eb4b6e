"""One reply made in a runner of your choice, with draft lengths that you say. Knows the turn only.

For those who compare replies: check, and the tests on real weights. Every reply starts from an
empty cache.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from specdec.contract import Finished, FinishReason, Message, NeverCancel, Notice, Sampling
from specdec.detokenize import TextStream
from specdec.drafters.base import Drafter
from specdec.drafters.plan import Moment, Plan
from specdec.errors import EngineError
from specdec.noise import Noise
from specdec.scorer import Scorer
from specdec.session import Session
from specdec.turn import Task, Turn


class Cycle:
    """These draft lengths in turn, one a round, and whoever offers in turn.

    `outcomes` are the rounds that drafted.
    """

    def __init__(self, ks: Sequence[int]) -> None:
        self._ks: Iterator[int] = itertools.cycle(ks)
        self._turn = itertools.count()
        self.outcomes: list[tuple[int, int]] = []

    def choose(self, moment: Moment) -> Plan:
        """The next length, from the next that offers, without a reason."""
        able = [offer.source for offer in moment.offers if not offer.blocked]
        return Plan(next(self._ks), source=able[next(self._turn) % len(able)] if able else "")

    def learn(self, kind: str, drafted: int, accepted: int) -> None:
        """Note it."""
        self.outcomes.append((drafted, accepted))


@dataclass(frozen=True, slots=True)
class Said:
    """A reply's ids without the end id, why it ended, and (drafted, accepted) of its rounds.

    `notices` is what the user would have read meanwhile: a draft that failed is there.
    """

    ids: tuple[int, ...]
    reason: FinishReason
    outcomes: tuple[tuple[int, int], ...] = ()
    notices: tuple[str, ...] = ()


def make_task(session: Session, text: str, sampling: Sampling) -> Task:
    """The task of a reply to one message; `sampling` has its seed and fits the context."""
    prompt = session.prompts.build(
        [Message("user", text)], session.pair.context - sampling.max_tokens
    ).ids
    noise = Noise.of(sampling.seed or 0, prompt)
    return Task(prompt, sampling, "match", noise, session.end_ids, session.pair.context)


def say(session: Session, scorer: Scorer, task: Task, drafter: Drafter, ks: Sequence[int]) -> Said:
    """Make the reply, from an empty cache of target and draft."""
    scorer.rewind(0)
    drafter.begin(())
    length = Cycle(ks)
    turn = Turn(task, scorer, drafter, length, TextStream(session.decode))
    events = list(turn.run(NeverCancel()))
    last = events[-1]
    if not isinstance(last, Finished):
        raise EngineError("The reply ended without saying why.", "Please report this.")
    notices = tuple(event.text for event in events if isinstance(event, Notice))
    return Said(last.ids, last.reason, tuple(length.outcomes), notices)


def outcome(drafted: int, accepted: int) -> str:
    """What became of a draft: full, partial or zero."""
    if accepted == drafted:
        return "full"
    return "partial" if accepted else "zero"
