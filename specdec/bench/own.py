"""This engine as a contender: a scorer and a drafter, timed reply by reply.

Knows turns; nothing of prompts as text, other engines or tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import count
from time import perf_counter

from specdec.bench.passes import Passes
from specdec.bench.plan import GREEDY, OWN
from specdec.bench.sample import PLAIN, PLAIN_FAST, Reply
from specdec.cache import FallbackScorer
from specdec.contract import NeverCancel, Round, Sampling
from specdec.detokenize import Decode, TextStream
from specdec.drafters.base import Drafter
from specdec.drafters.length import FixedLength
from specdec.drafters.none import NoDrafter
from specdec.heads.runner import HeadRunner
from specdec.noise import Noise
from specdec.runner import LeanScorer
from specdec.scorer import Scorer
from specdec.session import Cached, Session
from specdec.turn import Length, Task, Turn

SEED = 0


@dataclass(frozen=True, slots=True)
class Own:
    """Replies through `Turn` as `engine` makes them; no end id ends one.

    `cached` may be shared by contenders of one target and runner: a reply starts from an empty
    cache. `length` is asked for once a reply. `passes` is None where passes cannot be timed.
    """

    drafter: str
    cached: Cached
    drafts: Drafter
    length: Callable[[], Length]
    decode: Decode
    context: int
    passes: Passes | None = None
    engine: str = OWN
    sampling: Sampling = GREEDY

    def reply(self, prompt: tuple[int, ...], tokens: int) -> Reply:
        """From an empty cache, with one seed; times are seen from outside the turn."""
        began = perf_counter()
        self.cached.keep_prefix(prompt, fresh=True)
        self.drafts.begin(())
        sampling = replace(self.sampling, max_tokens=tokens, seed=SEED)
        task = Task(prompt, sampling, "match", Noise.of(SEED, prompt), frozenset(), self.context)
        text = TextStream(self.decode)
        turn = Turn(task, self.cached.scorer, self.drafts, self.length(), text)
        marks: list[tuple[int, float]] = []
        passed: list[float] = []
        drafted = accepted = 0
        for event in turn.run(NeverCancel()):
            if isinstance(event, Round) and event.ids:
                marks.append((event.new_tokens, perf_counter() - began))
                passed.append(self.passes.seconds if self.passes else 0.0)
                drafted += event.drafted
                accepted += event.accepted
        self.cached.forget()
        passes_s = passed[-1] - passed[0] if self.passes else None
        return Reply(turn.reply, tuple(marks), len(marks), drafted, accepted, passes_s)


def plain(
    cached: Cached,
    fast: Scorer | None,
    decode: Decode,
    context: int,
    passes: Passes | None,
    sampling: Sampling,
) -> list[Own]:
    """Plain decoding in the runner that serves, and in `fast` where that is another."""

    def one(name: str, where: Cached) -> Own:
        return Own(
            name,
            where,
            NoDrafter(),
            lambda: FixedLength(0),
            decode,
            context,
            passes,
            sampling=sampling,
        )

    found = [one(PLAIN, cached)]
    return [*found, one(PLAIN_FAST, Cached(fast))] if fast is not None else found


def drafting(
    session: Session, name: str, cached: Cached, passes: Passes | None, sampling: Sampling
) -> Own:
    """A session's draft and its lengths, over a scorer of the same target.

    Every reply is a conversation of its own, as a new chat is.
    """
    number = count()
    return Own(
        name,
        cached,
        session.drafter,
        lambda: session.make_length(None, f"reply {next(number)}"),
        session.decode,
        session.pair.context,
        passes,
        sampling=sampling,
    )


@contextmanager
def watched(device: str, scorer: Scorer) -> Iterator[Passes | None]:
    """Times passes while open, on a CPU: elsewhere a call returns before its work is done."""
    with ExitStack() as stack:
        classes = (LeanScorer, FallbackScorer, HeadRunner, type(scorer))
        yield stack.enter_context(Passes(classes)) if device == "cpu" else None


def contenders(
    session: Session,
    drafted: Mapping[str, Session],
    fast: Scorer | None,
    passes: Passes | None,
    sampling: Sampling,
) -> list[Own]:
    """Plain decoding and each draft, all over the scorer that serves `session`."""
    _, serving = session.scorer("auto")
    context = session.pair.context
    return [
        *plain(serving, fast, session.decode, context, passes, sampling),
        *(drafting(one, name, serving, passes, sampling) for name, one in drafted.items()),
    ]
