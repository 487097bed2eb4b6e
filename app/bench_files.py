"""A benchmark as files: the JSON of `specdec bench --json`, and a table for spreadsheets. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from app.bench_plan import SEED
from app.bench_view import BenchView, rows_of
from app.measured import Sheet
from app.race_card import as_bytes, public, stem
from specdec.bench.card import Card, machine, versions
from specdec.bench.plan import LAW
from specdec.bench.report import PUBLISHED, document

SCHEMA, VERSION = "specdec.bench", 1
COLUMNS = (*PUBLISHED, "same", "compared")


def document_of(view: BenchView, engine: Mapping[str, str]) -> dict[str, Any]:
    """`card` and `rows` as the command line writes them, and which drafts failed.

    Raises ValueError where nothing was measured.
    """
    pairs = [part.pair for part in view.parts if part.pair is not None]
    if not pairs:
        raise ValueError("nothing was measured")
    pair, sampling = pairs[0], view.plan.sampling
    settings = {
        "target": public(view.target),
        "drafts": [public(name) for name in view.plan.drafters],
        "draft_dtype": {
            public(part.drafter): part.pair.draft_dtype.value for part in view.parts if part.pair
        },
        "runner": pair.runner.value,
        "exact": pair.exact,
        **{name: getattr(sampling, name) for name in LAW},
        "rule": "match",
        "tokens": view.plan.tokens,
        "runs": view.plan.runs,
        "prompts": {kind: len(texts) for kind, texts in view.plan.prompts.items()},
        "peers": [],
        "ends_at_end_token": True,
        "stopped": view.stopped,
    }
    where = machine(pair.device.value, None, None)
    card = Card(where, {**versions(), **engine}, pair.dtype.value, settings, SEED)
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "made": datetime.now(UTC).date().isoformat(),
        **document(card, rows_of(view.parts)),
        "failed": {public(p.drafter): p.error.message for p in view.parts if p.error is not None},
    }


def table_of(view: BenchView) -> bytes:
    """One line a row; empty where nothing is known."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows_of(view.parts):
        values = (getattr(row, name) for name in COLUMNS)
        writer.writerow([round(v, 4) if isinstance(v, float) else v for v in values])
    return out.getvalue().encode()


def sheet_of(view: BenchView, engine: Mapping[str, str]) -> Sheet:
    """The files it can be saved as."""
    found = document_of(view, engine)
    return Sheet(
        f"bench-{stem(view.target)}-{found['made']}",
        {"json": lambda: as_bytes(found), "csv": lambda: table_of(view)},
    )
