"""What the tests of the benchmark tab share."""

from __future__ import annotations

from app.bench_view import BenchView
from app.line import Job
from tests.app.desk_kit import Kit


def start(
    kit: Kit,
    drafters: tuple[str, ...] = ("ngram", "auto"),
    kinds: tuple[str, ...] = ("chat", "code"),
    first: int = 2,
    runs: int = 1,
) -> Job[BenchView]:
    return kit.controller.benches.start(kit.owner(), drafters, kinds, first, 16, runs)
