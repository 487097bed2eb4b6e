"""One timed reply, the rows of a table, and the protocol of what is timed. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Protocol

PLAIN, PLAIN_FAST = "plain", "plain-fast"

Key = tuple[str, str, str]
"""kind, engine, drafter"""


@dataclass(frozen=True, slots=True)
class Reply:
    """`marks` are (tokens so far, seconds since the request), one for each time some came.

    `drafted` and `accepted` are None where the engine does not tell; `rounds` too. `passes_s` are
    the seconds in passes of target and draft between the first mark and the last.
    """

    ids: tuple[int, ...]
    marks: tuple[tuple[int, float], ...]
    rounds: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    passes_s: float | None = None

    @property
    def tokens(self) -> int:
        return self.marks[-1][0]

    @property
    def first_s(self) -> float:
        """From the request to the first token, prefill included."""
        return self.marks[0][1]

    @property
    def total_s(self) -> float:
        return self.marks[-1][1]

    @property
    def tok_s(self) -> float:
        """Tokens after the first that came / the time after it. 0 when all came at once."""
        later, seconds = self.tokens - self.marks[0][0], self.total_s - self.first_s
        return later / seconds if later and seconds > 0 else 0.0

    @property
    def outside(self) -> float | None:
        """Share of the time after the first token that was in no pass of target or draft."""
        seconds = self.total_s - self.first_s
        if self.passes_s is None or seconds <= 0:
            return None
        return max(0.0, 1 - self.passes_s / seconds)

    def until(self, count: int) -> float:
        """Seconds to the token of this number, counted from 1; to the last if there are fewer."""
        return next((s for made, s in self.marks if made >= count), self.total_s)


class Contender(Protocol):
    """An engine with a drafter. `reply` is greedy, from an empty cache, and never ends early."""

    @property
    def engine(self) -> str:
        """specdec, transformers or llama.cpp."""

    @property
    def drafter(self) -> str:
        """plain, plain-fast, a registry id, ngram, auto or chosen."""

    def reply(self, prompt: tuple[int, ...], tokens: int) -> Reply:
        """Make `tokens` tokens after these ids."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Which reply this was: the `place`-th prompt of a kind, in the `run`-th run."""

    kind: str
    place: int
    run: int
    engine: str
    drafter: str
    reply: Reply


@dataclass(frozen=True, slots=True)
class Row:
    """All replies of one engine and drafter to one kind: medians, sums, and what lies behind.

    `ratio_to_plain` is the median, prompt by prompt, over the same engine's fastest plain row.
    `same` of `compared` replies have the ids of this engine's own plain reply.
    """

    kind: str
    engine: str
    drafter: str
    tok_s: float
    tok_s_min: float
    tok_s_max: float
    ratio_to_plain: float | None
    tokens_per_round: float | None
    drafted: int | None
    accepted: int | None
    first_s: float
    tenth_s: float
    total_s: float
    outside: float | None
    same: int
    compared: int


def rows(samples: Sequence[Sample]) -> list[Row]:
    """One row for each (kind, engine, drafter), in the order they first appear."""
    order = dict.fromkeys((s.kind, s.engine, s.drafter) for s in samples)
    return [_row(key, samples) for key in order]


def ratio(samples: Sequence[Sample], key: Key, base: Key) -> float | None:
    """Median over prompts of `key`'s tokens a second over those of `base`; None without pairs."""
    mine, theirs = _rates(samples, key), _rates(samples, base)
    found = [rate / theirs[at] for at, rate in mine.items() if at in theirs]
    return median(found) if found else None


def fastest_plain(samples: Sequence[Sample], kind: str, engine: str) -> Key | None:
    """The plain row of this engine with the highest median, None where it has none."""
    keys = [(kind, engine, drafter) for drafter in (PLAIN, PLAIN_FAST)]
    known = [(median(rates.values()), key) for key in keys if (rates := _rates(samples, key))]
    return max(known)[1] if known else None


def _rates(samples: Sequence[Sample], key: Key) -> dict[tuple[int, int], float]:
    """By prompt and run. A reply that came in one piece has no rate."""
    mine = (s for s in samples if (s.kind, s.engine, s.drafter) == key and s.reply.tok_s)
    return {(s.place, s.run): s.reply.tok_s for s in mine}


def _row(key: Key, samples: Sequence[Sample]) -> Row:
    kind, engine, _ = key
    mine = [s for s in samples if (s.kind, s.engine, s.drafter) == key]
    replies = [s.reply for s in mine]
    base = fastest_plain(samples, kind, engine)
    rates = list(_rates(samples, key).values()) or [0.0]
    rounds = _total([reply.rounds for reply in replies])
    tokens = sum(reply.tokens for reply in replies)
    plain = {
        (s.place, s.run): s.reply.ids
        for s in samples
        if (s.kind, s.engine, s.drafter) == (kind, engine, PLAIN)
    }
    pairs = [(s.reply.ids, plain[s.place, s.run]) for s in mine if (s.place, s.run) in plain]
    shares = [share for reply in replies if (share := reply.outside) is not None]
    return Row(
        *key,
        tok_s=median(rates),
        tok_s_min=min(rates),
        tok_s_max=max(rates),
        ratio_to_plain=ratio(samples, key, base) if base else None,
        tokens_per_round=tokens / rounds if rounds else None,
        drafted=_total([reply.drafted for reply in replies]),
        accepted=_total([reply.accepted for reply in replies]),
        first_s=_middle(replies, lambda reply: reply.first_s),
        tenth_s=_middle(replies, lambda reply: reply.until(10)),
        total_s=_middle(replies, lambda reply: reply.total_s),
        outside=median(shares) if shares else None,
        same=sum(one == other for one, other in pairs),
        compared=len(pairs),
    )


def _total(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _middle(replies: Sequence[Reply], of: Callable[[Reply], float]) -> float:
    return median(of(reply) for reply in replies)
