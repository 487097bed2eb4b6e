"""A benchmark as it goes, and the rows it comes to. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.bench_plan import BenchPlan
from specdec.bench.sample import PLAIN, PLAIN_FAST, Row, Sample, rows
from specdec.contract import ErrorInfo, Pair, Phase

PLAINS = (PLAIN, PLAIN_FAST)


@dataclass(frozen=True, slots=True)
class Part:
    """All that was measured while one draft was loaded; `error`: why it is not whole."""

    drafter: str
    pair: Pair | None = None
    samples: tuple[Sample, ...] = ()
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class BenchView:
    """`step` of `plan.steps` prompts are done; `left_s` is a guess, None before there is one.

    `doing` says what runs, `phase` where a load stands, `error` why it ended early. `sheet` is
    where the files are kept.
    """

    plan: BenchPlan
    target: str
    parts: tuple[Part, ...] = ()
    doing: str = ""
    phase: Phase | None = None
    position: int = 0
    step: int = 0
    left_s: float | None = None
    ended: bool = False
    stopped: bool = False
    error: ErrorInfo | None = None
    sheet: str = ""


def rows_of(parts: Sequence[Part]) -> list[Row]:
    """By kind: plain decoding over all parts, then each drafter.

    A drafter's ratio is to the faster plain decoding of its own part, measured beside it.
    """
    beside = [
        replace(sample, run=sample.run + number * _APART)
        for number, part in enumerate(parts)
        for sample in part.samples
        if sample.drafter in PLAINS
    ]
    found = rows(beside)
    for part in parts:
        found += [row for row in rows(part.samples) if row.drafter not in PLAINS]
    kinds = list(dict.fromkeys(sample.kind for part in parts for sample in part.samples))

    def order(row: Row) -> tuple[int, int]:
        plain = PLAINS.index(row.drafter) if row.drafter in PLAINS else len(PLAINS)
        return kinds.index(row.kind), plain

    return sorted(found, key=order)


_APART = 1_000_000
"""Runs of different parts are different runs."""
