"""Does `reject` keep the target's law? Sampled on a real model's likeliest tokens, not derived.

Knows a target's scorer, a drafter's laws and the acceptance rule; nothing of replies or verdicts.
The joint law of the next three tokens is known exactly from a tree of logits, and compared with how
often `reject` says each, in rounds as the decode loop makes them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from specdec.drafters.base import Context, Draft, Drafter
from specdec.noise import Noise
from specdec.request import Sampling
from specdec.sampling import Law, draw, law
from specdec.scorer import Scorer
from specdec.verify import Laws, Outcome, reject

Rule = Callable[[Draft, Laws, Noise, int], Outcome]
Path = tuple[int, ...]

DEPTH = 3
"""Tokens whose joint law is compared: two may be drafted, one is a correction or a bonus."""

SETTINGS = Sampling(temperature=1.0, top_k=5)
"""The product's own filter makes the small law, of target and draft alike."""

LIMIT = 5.0
"""Standard deviations of chance: a correct rule goes beyond once in three million."""

LEAST = 5.0
"""Cells expected less often than this are pooled: chi-square is an approximation."""


@dataclass(frozen=True, slots=True)
class Guess:
    """What a drafter proposes after a prefix: x ~ law, or one token without a law, or nothing."""

    law: Law | None = None
    token: int | None = None


@dataclass(frozen=True, slots=True)
class Tree:
    """Target laws after every prefix of up to DEPTH - 1 tokens, and guesses where one may draft."""

    laws: Mapping[Path, Law]
    guesses: Mapping[Path, Guess]


@dataclass(frozen=True, slots=True)
class LawTest:
    """One draft at one place. `strays` are samples that have no mass at all.

    `z` is chi-square in standard deviations of chance: the worst of the first one to DEPTH tokens.
    """

    draft: str
    samples: int
    cells: int
    accepted: int
    drafted: int
    z: float
    strays: int

    @property
    def holds(self) -> bool:
        return self.strays == 0 and self.z < LIMIT


def target_laws(scorer: Scorer, tokens: Sequence[int]) -> dict[Path, Law]:
    """The laws after `tokens` and after every likely path of up to DEPTH - 1 more.

    The scorer holds all of `tokens` but the last, and is left so.
    """
    length = scorer.length
    laws: dict[Path, Law] = {}

    def walk(path: Path) -> None:
        scorer.rewind(length + len(path))
        sequence = [*tokens, *path]
        logits = scorer.score(sequence[-1:])[0].cpu()  # where `judge` works `reject` out
        laws[path] = law(logits, SETTINGS, sequence, len(tokens))
        if len(path) < DEPTH - 1:
            for token in laws[path].ids.tolist():
                walk((*path, token))

    walk(())
    scorer.rewind(length)
    return laws


def second_best(laws: Mapping[Path, Law]) -> dict[Path, Guess]:
    """A draft without a law, as an n-gram's is, that is wrong more often than not."""
    guesses = {}
    for path, p in laws.items():
        if len(path) < DEPTH - 1:
            order = p.scores.argsort(descending=True, stable=True)
            guesses[path] = Guess(token=int(p.ids[order[:2][-1]]))
    return guesses


def drafter_guesses(
    drafter: Drafter, tokens: Sequence[int], laws: Mapping[Path, Law]
) -> dict[Path, Guess]:
    """What the drafter proposes after `tokens`, and after each token either side may say there."""
    guesses: dict[Path, Guess] = {}
    noise = Noise.of(0, tokens)
    drafter.begin(tokens)

    def guess(path: Path) -> Guess:
        sequence = [*tokens, *path]
        while not drafter.catch_up(sequence):
            continue
        draft = drafter.propose(Context(sequence, len(tokens), SETTINGS, "reject", noise), 1)
        drafter.settle(sequence, 0)
        if not draft.tokens:
            return Guess()
        q = draft.laws[0]
        return Guess(q and Law(q.ids.cpu(), q.scores.cpu(), q.size), draft.tokens[0])

    guesses[()] = first = guess(())
    said = set(laws[()].ids.tolist()) | set(first.law.ids.tolist() if first.law else ())
    for token in sorted(said | ({first.token} if first.token is not None else set())):
        guesses[(token,)] = guess((token,))
    return guesses


def law_test(
    name: str, tree: Tree, tokens: Sequence[int], samples: int, rule: Rule = reject
) -> LawTest:
    """Sample the next DEPTH tokens `samples` times, seeds 0 .. samples - 1, and compare."""
    said: Counter[Path] = Counter()
    drafted = accepted = 0
    for seed in range(samples):
        noise = Noise.of(seed, tokens)
        path: Path = ()
        while len(path) < DEPTH:
            draft = _draft(tree, path, noise)
            outcome = _round(tree, path, draft, noise, rule)
            drafted, accepted = drafted + len(draft.tokens), accepted + outcome.accepted
            path = (*path, *outcome.tokens)
        said[path] += 1
    exact = joint(tree.laws)
    strays = sum(count for path, count in said.items() if exact.get(path, 0.0) == 0)
    depths = range(1, DEPTH + 1)
    z = max(surprise(_first(said, depth), _first(exact, depth)) for depth in depths)
    return LawTest(name, samples, len(exact), accepted, drafted, z, strays)


def joint(laws: Mapping[Path, Law]) -> dict[Path, float]:
    """Mass of every path of DEPTH tokens."""
    cells: dict[Path, float] = {(): 1.0}
    for _ in range(DEPTH):
        cells = {
            (*path, token): mass * p
            for path, mass in cells.items()
            for token, p in zip(laws[path].ids.tolist(), laws[path].probs().tolist(), strict=True)
        }
    return cells


def surprise(said: Mapping[Path, float], exact: Mapping[Path, float]) -> float:
    """Chi-square of counts against the exact law, as standard deviations of chance.

    Wilson and Hilferty 1931: its cube root is close to normal, at few degrees of freedom too.
    """
    n = sum(said.values())
    rows = [(said.get(path, 0), n * mass) for path, mass in exact.items()]
    large = [row for row in rows if row[1] >= LEAST]
    seen = sum(count for count, expected in rows if expected < LEAST)
    rest = sum(expected for _, expected in rows if expected < LEAST)
    if rest > 0:
        large.append((seen, rest))
    freedom = len(large) - 1
    if freedom == 0:
        return 0.0
    statistic = sum((count - expected) ** 2 / expected for count, expected in large)
    part = 2 / (9 * freedom)
    return float(((statistic / freedom) ** (1 / 3) - (1 - part)) / math.sqrt(part))


def _first(cells: Mapping[Path, float], depth: int) -> dict[Path, float]:
    """Counts or masses of the first `depth` tokens: few cells see a small bias that many dilute."""
    sums: dict[Path, float] = {}
    for path, amount in cells.items():
        sums[path[:depth]] = sums.get(path[:depth], 0) + amount
    return sums


def _draft(tree: Tree, path: Path, noise: Noise) -> Draft:
    """All that may be drafted from here; decided before anything is drawn."""
    tokens, laws = list[int](), list[Law | None]()
    while guess := tree.guesses.get((*path, *tokens)):
        if guess.token is None:
            break
        index = len(path) + len(tokens)
        tokens.append(guess.token if guess.law is None else draw(guess.law, noise, index, "draft"))
        laws.append(guess.law)
    return Draft(tuple(tokens), tuple(laws))


def _round(tree: Tree, path: Path, draft: Draft, noise: Noise, rule: Rule) -> Outcome:
    def laws(j: int) -> Law:
        # past a token without mass, which counts as a stray, any law will do
        return tree.laws.get((*path, *draft.tokens[:j]), tree.laws[()])

    return rule(draft, laws, noise, len(path))
