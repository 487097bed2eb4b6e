"""Every drafter on real weights: the ids of plain decoding, greedy and seeded, and `reject`'s law.

What `specdec check` looks at, over a few prompts ("done when" 1 of the third issue). Lengths change
each round and are 0 in between, so that each drafter is paused and goes on.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from specdec.assemble import load_target, with_draft
from specdec.check import check, mixed
from specdec.check_runners import open_runners
from specdec.depot import Depot
from specdec.options import EngineOptions

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(3600)]

SMOL, HEAD = "smollm2-135m-instruct", "smollm2-135m-instruct-head"
QWEN, QWEN_DRAFT = "qwen2.5-coder-1.5b-instruct", "qwen2.5-coder-0.5b-instruct"

PAIRS = [(SMOL, draft) for draft in ("ngram", SMOL, HEAD, "early-exit", QWEN_DRAFT, "auto")]
PAIRS += [(QWEN, draft) for draft in ("ngram", QWEN_DRAFT, "early-exit", SMOL, "auto")]


@pytest.mark.parametrize(("target", "draft"), PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_it_says_what_the_target_alone_says(data: Path, target: str, draft: str) -> None:
    options = EngineOptions(data, device="cpu", dtype="bfloat16", ngram_store=False)
    depot = Depot(options, lambda phase: None, lambda: False)
    loaded = load_target(depot, target)
    session = with_draft(depot, loaded, draft)
    print(session.pair.draft.reason)
    chosen = slice(3) if target == SMOL else slice(2, 3)  # the third copies: n-grams keep drafts
    prompts = tuple(mixed())[chosen]
    report = check(session, open_runners(session, loaded), 1, print, prompts)
    print(report.verdict())
    assert [fault for fault in report.faults if not fault.startswith("too few rounds")] == []
    assert report.replies == 2 * len(prompts)
    assert report.rounds["full"] + report.rounds["partial"] > 0
    assert report.laws
