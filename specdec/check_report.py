"""What a check found, and its verdict in words and figures. Knows no models and no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

ENOUGH = 20
"""Rounds of each outcome a check must have seen: without rejections nothing was at risk (A39)."""

OUTCOMES = ("full", "partial", "zero")
SHOWN = 8
"""Lines at most about one kind of finding."""


@dataclass(frozen=True, slots=True)
class Case:
    """Which reply: the kind of its prompt, the number in that kind from 1, and the temperature."""

    kind: str
    number: int
    temperature: float

    def __str__(self) -> str:
        return f"{self.kind} {self.number} at T = {self.temperature:g}"


@dataclass(frozen=True, slots=True)
class Difference:
    """(a): with this drafter the reply differs from plain decoding at `place`, or in its end."""

    case: Case
    drafter: str
    place: int
    expected: str
    got: str


@dataclass(frozen=True, slots=True)
class Near:
    """(b) and (c): a token that is not the one-row runner's choice.

    `gap` and `spread` are in logit/T - log E. `first`: up to here plain decoding there says the
    same words.
    """

    case: Case
    place: int
    expected: str
    got: str
    gap: float
    spread: float
    explained: bool
    first: bool


@dataclass(frozen=True, slots=True)
class LawRow:
    """(d): one draft at one place."""

    case: Case
    place: int
    draft: str
    samples: int
    z: float
    strays: int
    holds: bool


@dataclass(frozen=True, slots=True)
class Report:
    """`why_not` says why (a) was not possible. `tokens` counts each reply once, `compared` each
    comparison; an end id that was drawn counts. `runner_ms` and `plain_ms` are one-row steps.
    """

    pair: Mapping[str, str]
    runner: str
    why_not: str
    kinds: tuple[str, ...]
    replies: int
    tokens: int
    compared: int
    rounds: Mapping[str, int]
    replayed: int
    runner_ms: float
    plain_ms: float
    differences: tuple[Difference, ...] = ()
    near: tuple[Near, ...] = ()
    laws: tuple[LawRow, ...] = ()
    notices: tuple[str, ...] = field(default=())

    @property
    def faults(self) -> tuple[str, ...]:
        """Why the check fails; empty when it passes."""
        return tuple(self._faults())

    @property
    def passed(self) -> bool:
        return not self.faults

    def verdict(self) -> str:
        """One line."""
        rounds = " / ".join(f"{self.rounds.get(name, 0):,} {name}" for name in ("full", "partial"))
        rounds += f" / {self.rounds.get('zero', 0):,} none"
        if self.passed:
            near = sum(row.first for row in self.near)
            return (
                f"check passed: {self.tokens:,} tokens identical ({self.compared:,} comparisons), "
                f"rounds {rounds}, {self.replayed:,} replayed ({len(self.near):,} at near-ties; "
                f"{near:,} of {self.replies:,} replies differ in the one-row runner), "
                f"{len(self.laws)} law tests hold"
            )
        return (
            f"check FAILED: {'; '.join(self.faults)} ({self.tokens:,} tokens, rounds {rounds}, "
            f"{self.replayed:,} replayed, {len(self.laws)} law tests)"
        )

    def lines(self) -> Iterator[str]:
        """The findings, then the verdict as the last line."""
        yield f"{self.pair['target']} with {self.pair['draft']}, {self.pair['dtype']} on " + (
            f"{self.pair['device']}"
        )
        same = not self.differences
        yield f"(a) {self.runner} runner, with a draft and without: " + (
            self.why_not or ("identical ids" if same else f"{len(self.differences)} replies differ")
        )
        yield from _some(
            f"      {d.case}, {d.drafter}: token {d.place} is {d.got!r}, plain says {d.expected!r}"
            for d in self.differences
        )
        first = [row for row in self.near if row.first]
        yield (
            f"(b) one-row runner: {len(first)} of {self.replies} replies differ; a step takes "
            + (f"{self.plain_ms:.1f} ms there, {self.runner_ms:.1f} ms in the {self.runner} runner")
        )
        yield from _some(f"      {_near(row)}" for row in first)
        wrong = [row for row in self.near if not row.explained]
        yield f"(c) {self.replayed:,} tokens replayed: {len(self.near)} are not the choice of " + (
            f"the one-row runner, {len(wrong)} of them by more than the runners differ"
        )
        yield from _some(f"      {_near(row)}" for row in wrong)
        yield f"(d) reject keeps the law: {sum(row.holds for row in self.laws)} of " + (
            f"{len(self.laws)} tests"
        )
        yield from (
            f"      {row.case}, token {row.place}, draft {row.draft}: {row.samples:,} samples, "
            f"{row.z:+.1f} sigma" + (f", {row.strays} without mass" if row.strays else "")
            for row in self.laws
        )
        yield self.verdict()

    def to_json(self) -> dict[str, Any]:
        """All of it, and the verdict."""
        return {**asdict(self), "passed": self.passed, "verdict": self.verdict()}

    def _faults(self) -> Iterator[str]:
        if self.why_not:
            yield f"(a) is not possible: {self.why_not}"
        elif self.differences:
            first = self.differences[0]
            yield f"(a) {len(self.differences)} replies differ, the first at {first.case}, " + (
                f"token {first.place}, drafted by {first.drafter}"
            )
        if self.tokens == 0:
            yield "nothing was compared"
        if wrong := [row for row in self.near if not row.explained]:
            yield f"(c) {len(wrong)} tokens are not the plain model's choice, the first: " + (
                _near(wrong[0])
            )
        if not self.laws:
            yield "(d) no law was tested"
        if bad := [row for row in self.laws if not row.holds]:
            yield f"(d) {len(bad)} law tests fail, the first at {bad[0].z:+.1f} sigma"
        if few := [name for name in OUTCOMES if self.rounds.get(name, 0) < ENOUGH]:
            seen = ", ".join(f"{self.rounds.get(name, 0)} {name}" for name in few)
            yield f"too few rounds of a kind, at least {ENOUGH} are needed: {seen}"


def _near(row: Near) -> str:
    return (
        f"{row.case}, token {row.place} is {row.got!r}, plain says {row.expected!r} "
        f"by {row.gap:.4f}; the runners differ by {row.spread:.4f}"
    )


def _some(lines: Iterator[str]) -> Iterator[str]:
    every = list(lines)
    yield from every[:SHOWN]
    if len(every) > SHOWN:
        yield f"      and {len(every) - SHOWN} more"
