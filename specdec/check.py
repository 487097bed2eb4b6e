"""Is it lossless on this machine, with these weights? Replies made, compared, replayed, sampled.

Knows a loaded pair and the decode loop; nothing of the terminal. (a) to (d) are those of issue 3:
the same ids with a draft and without, where the fastest plain runner differs, each token replayed
through the plain model, the law of `reject`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import cast

from specdec import prompt_sets
from specdec.check_law import (
    LawTest,
    Rule,
    Tree,
    drafter_guesses,
    law_test,
    second_best,
    target_laws,
)
from specdec.check_replay import Replay, fill, replay
from specdec.check_report import ENOUGH, OUTCOMES, Case, Difference, LawRow, Near, Report
from specdec.check_runners import Runners, step_ms
from specdec.contract import Sampling
from specdec.detokenize import Decode
from specdec.drafters.base import Drafter, Watcher
from specdec.drafters.ngram import NgramDrafter
from specdec.drafters.none import NoDrafter
from specdec.scorer import Scorer
from specdec.session import Session
from specdec.trial import Said, make_task, outcome, say
from specdec.turn import Task
from specdec.verify import reject

REPLY = 48
"""Tokens a reply has at most: many prompts say more than long replies."""

LENGTHS = (3, 7, 0, 1, 5, 2, 6, 4)
"""Draft lengths, one a round: none is like the one before, and all from 0 to the most occur."""

SEED = 20_240

PLACES, SAMPLES = 3, 1000
"""Where the law is tested, and how often it is sampled there."""


@dataclass(slots=True)
class _Findings:
    """Counts and findings so far."""

    replies: int = 0
    tokens: int = 0
    compared: int = 0
    replayed: int = 0
    rounds: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)
    near: list[Near] = field(default_factory=list)
    notices: dict[str, None] = field(default_factory=dict)  # a set that keeps its order
    places: dict[tuple[int, ...], tuple[float, Case, int]] = field(default_factory=dict)

    def enough(self) -> bool:
        return all(self.rounds[name] >= ENOUGH for name in OUTCOMES)


def check(
    session: Session,
    runners: Runners,
    tokens: int,
    show: Callable[[str], None],
    prompts: Sequence[tuple[str, int, str]] = (),
    rule: Rule = reject,
) -> Report:
    """Compare until `tokens` tokens, every kind and enough rounds were seen, or prompts run out.

    `prompts` are (kind, number, text), those that come with the program unless given. `rule` is
    what (d) samples.
    """
    prompts = prompts or tuple(mixed())
    kinds = tuple(dict.fromkeys(kind for kind, _, _ in prompts))
    drafters = drafters_of(session)
    found = _Findings()
    seen: dict[str, None] = {}
    for kind, number, text in prompts:
        if len(seen) == len(kinds) and found.tokens >= tokens and found.enough():
            break
        seen[kind] = None
        for temperature in (0.0, 0.8):
            sampling = Sampling(
                temperature=temperature,
                seed=SEED + found.replies,
                max_tokens=min(REPLY, session.pair.context // 4),
            )
            case = Case(kind, number, temperature)
            _reply(session, runners, drafters, case, make_task(session, text, sampling), found)
            rounds = ", ".join(f"{found.rounds[name]} {name}" for name in OUTCOMES)
            show(f"{case}: {found.tokens:,} tokens in all, rounds {rounds}")
    laws = []
    for case, place, test in _laws(session, runners, drafters, found, rule):
        laws.append(LawRow(case, place, test.draft, test.samples, test.z, test.strays, test.holds))
        show(f"law of reject at {case}, token {place}, draft {test.draft}: {test.z:+.1f} sigma")
    pair = session.pair
    return Report(
        pair={
            "target": pair.target.value,
            "draft": pair.draft.value,
            "device": pair.device.value,
            "dtype": pair.dtype.value,
            "draft_dtype": pair.draft_dtype.value,
            "runner": pair.runner.reason,
        },
        runner=runners.name,
        why_not=runners.why_not,
        kinds=tuple(seen),
        replies=found.replies,
        tokens=found.tokens,
        compared=found.compared,
        rounds={name: found.rounds[name] for name in OUTCOMES},
        replayed=found.replayed,
        runner_ms=step_ms(runners.made),
        plain_ms=step_ms(runners.single),
        differences=tuple(found.differences),
        near=tuple(found.near),
        laws=tuple(laws),
        notices=tuple(found.notices),
    )


def mixed() -> Iterator[tuple[str, int, str]]:
    """Every prompt as (kind, number from 1, text), the kinds taken in turn."""
    sets = {kind: prompt_sets.load(kind) for kind in prompt_sets.kinds()}
    for number in range(max(map(len, sets.values()))):
        for kind, texts in sets.items():
            if number < len(texts):
                yield kind, number + 1, texts[number]


def drafters_of(session: Session) -> tuple[Drafter, ...]:
    """The pair's own, and n-grams."""
    own = session.drafter
    return (NgramDrafter(),) if own.name in ("none", "ngram") else (own, NgramDrafter())


def _reply(
    session: Session,
    runners: Runners,
    drafters: Sequence[Drafter],
    case: Case,
    task: Task,
    found: _Findings,
) -> None:
    """One prompt at one temperature: plain, with each drafter; each distinct reply is replayed."""
    plain = say(session, runners.plain, task, NoDrafter(), (0,))
    found.replies += 1
    found.tokens += _drawn(plain)
    replies = {(plain.ids, plain.reason): plain} if runners.plain is runners.made else {}
    for drafter in drafters:
        said = say(session, runners.made, task, drafter, LENGTHS)
        found.compared += _drawn(said)
        found.rounds.update(outcome(*pair) for pair in said.outcomes)
        found.notices.update(dict.fromkeys(said.notices))
        replies.setdefault((said.ids, said.reason), said)
        if row := difference_between(session.decode, case, drafter.name, plain, said):
            found.differences.append(row)
    for said in replies.values():
        _replayed(session, runners, case, task, said, found)


def difference_between(
    decode: Decode, case: Case, drafter: str, plain: Said, said: Said
) -> Difference | None:
    """Where two replies part, by ids and by how they end; None when they are the same."""
    if (plain.ids, plain.reason) == (said.ids, said.reason):
        return None
    shorter = min(len(plain.ids), len(said.ids))
    pairs = enumerate(zip(plain.ids, said.ids, strict=False))
    place = next((i for i, (mine, theirs) in pairs if mine != theirs), shorter)

    def word(reply: Said) -> str:
        return decode(reply.ids[place : place + 1]) or f"the end ({reply.reason})"

    return Difference(case, drafter, place, word(plain), word(said))


def _replayed(
    session: Session, runners: Runners, case: Case, task: Task, said: Said, found: _Findings
) -> None:
    result: Replay = replay(task, said, runners.single, runners.made)
    found.replayed += result.tokens
    found.near += [
        Near(
            case,
            other.place,
            session.decode((other.expected,)),
            session.decode((other.got,)),
            other.gap,
            other.spread,
            other.explained,
            other is result.others[0],
        )
        for other in result.others
    ]
    if result.entropy:
        place = max(range(result.tokens), key=result.entropy.__getitem__)
        tokens = (*task.prompt, *said.ids[:place])
        found.places.setdefault(tokens, (result.entropy[place], case, place))


def _laws(
    session: Session,
    runners: Runners,
    drafters: Sequence[Drafter],
    found: _Findings,
    rule: Rule,
) -> Iterator[tuple[Case, int, LawTest]]:
    """Where the target is least sure there is most to see; each drafter, and one without a law."""
    unsure = sorted(found.places.items(), key=lambda row: -row[1][0])[:PLACES]
    for tokens, (_, case, place) in unsure:
        with watching(drafters, runners.single):
            fill(runners.single, tokens[:-1])
            laws = target_laws(runners.single, tokens)
            tests = {"second best": second_best(laws)}
            tests |= {d.name: drafter_guesses(d, tokens, laws) for d in drafters}
        for name, guesses in tests.items():
            if guesses[()].token is not None:  # an n-gram has nothing to say in most places
                yield case, place, law_test(name, Tree(laws, guesses), tokens, SAMPLES, rule)


@contextmanager
def watching(drafters: Sequence[Drafter], target: Scorer) -> Iterator[None]:
    """As a turn does: who reads the target's layers is told which target, from before it reads."""
    watchers = [cast(Watcher, drafter) for drafter in drafters if drafter.wants_hidden]
    try:
        for watcher in watchers:
            watcher.watch(target)
        yield
    finally:
        for watcher in watchers:
            watcher.watch(None)


def _drawn(said: Said) -> int:
    """Tokens drawn: those of the reply, and the end id."""
    return len(said.ids) + (said.reason == "end")
