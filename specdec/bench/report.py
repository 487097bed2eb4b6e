"""A result as Markdown for people and as JSON for programs. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from specdec.bench.card import Card, Result
from specdec.bench.plan import OWN, TRANSFORMERS
from specdec.bench.sample import PLAIN, PLAIN_FAST, Row, ratio, rows
from specdec.pairing import NGRAM

PUBLISHED = (
    "kind", "engine", "drafter", "tok_s", "tok_s_min", "tok_s_max", "ratio_to_plain",
    "tokens_per_round", "drafted", "accepted",
)  # fmt: skip
"""The fields of a row in the JSON file."""

HEAD = (
    "kind", "engine", "drafter", "tok/s (lowest to highest)", "x own plain",
    "x transformers plain", "x assisted", "tokens a round", "kept/drafted", "first s", "tenth s",
    "total s", "outside passes", "same ids",
)  # fmt: skip


def text(result: Result) -> str:
    """The table, the physics, and what the reader must know to trust them."""
    found = rows(result.samples)
    lines = [
        *result.facts,
        "",
        "Tokens a second after the first, median over replies. Seconds are medians too.",
        "",
        _line(HEAD),
        "|" + "---|" * len(HEAD),
        *(_line(_cells(result, row)) for row in found),
        "",
        *physics_lines(result, found),
        *limits(found),
    ]
    return "\n".join(lines)


def to_json(result: Result) -> str:
    """The document as text."""
    return json.dumps(document(result.card, rows(result.samples)), indent=1, ensure_ascii=False)


def document(card: Card, found: Sequence[Row]) -> dict[str, Any]:
    """{card: {...}, rows: [...]}; null where an engine does not tell."""
    return {
        "card": asdict(card),
        "rows": [{name: _round(getattr(row, name)) for name in PUBLISHED} for row in found],
    }


def _round(value: object) -> object:
    return round(value, 4) if isinstance(value, float) else value


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cells(result: Result, row: Row) -> tuple[str, ...]:
    kept = "-" if row.drafted is None else f"{row.accepted}/{row.drafted}"

    def over(drafter: str) -> str:
        key, base = (row.kind, row.engine, row.drafter), (row.kind, TRANSFORMERS, drafter)
        return _number(ratio(result.samples, key, base))

    return (
        row.kind,
        row.engine,
        row.drafter,
        f"{row.tok_s:.2f} ({row.tok_s_min:.2f} to {row.tok_s_max:.2f})",
        _number(row.ratio_to_plain),
        over(PLAIN),
        over(_assistant(result)),
        _number(row.tokens_per_round),
        kept,
        f"{row.first_s:.2f}",
        f"{row.tenth_s:.2f}",
        f"{row.total_s:.2f}",
        "-" if row.outside is None else f"{row.outside:.1%}",
        f"{row.same}/{row.compared}" if row.compared else "-",
    )


def _assistant(result: Result) -> str:
    """The model that transformers drafts with; "" where there is none."""
    drafters = {s.drafter for s in result.samples if s.engine == TRANSFORMERS}
    return next(iter(drafters - {PLAIN, NGRAM}), "")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def physics_lines(result: Result, found: Sequence[Row]) -> list[str]:
    """The plain limit, and what plain decoding and speculation reach of it, by kind."""
    physics = result.physics
    lines = [
        f"A token reads {physics.step_bytes / 1e9:.3f} GB of weights; memory was read at "
        f"{physics.bandwidth / 1e9:.1f} GB/s ({physics.how}): plain decoding cannot pass "
        f"{physics.limit:.2f} tok/s.",
    ]
    for kind in dict.fromkeys(row.kind for row in found):
        own = [row for row in found if row.kind == kind and row.engine == OWN]
        plain = max(row.tok_s for row in own if row.drafter in (PLAIN, PLAIN_FAST))
        parts = [f"plain reaches {physics.share(plain):.0%}"]
        parts += [
            f"{row.drafter} {physics.share(row.tok_s):.0%}"
            for row in own
            if row.drafter not in (PLAIN, PLAIN_FAST)
        ]
        lines.append(f"Of that limit, {kind}: {', '.join(parts)}.")
    return lines


def limits(found: Sequence[Row]) -> list[str]:
    """What a draft must not cost: time outside passes, a later first or tenth token."""
    lines = []
    for row in found:
        if row.engine != OWN or row.drafter in (PLAIN, PLAIN_FAST):
            continue
        plain = next(r for r in found if (r.kind, r.engine, r.drafter) == (row.kind, OWN, PLAIN))
        first = row.first_s / plain.first_s - 1
        tenth = row.tenth_s / plain.tenth_s - 1
        outside = "" if row.outside is None else f", {row.outside:.1%} of decoding outside passes"
        lines.append(
            f"{row.kind}, {row.drafter}: first token {first:+.1%} and tenth {tenth:+.1%} "
            f"against plain{outside}."
        )
    return lines
