"""The draft picker's numbers: measured costs, drafts kept so far, or "not measured yet"."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app import pair_sheet
from app.desk import Options
from app.draft_gain import Record, predicted, records, told
from app.memory_bar import bar
from specdec.contract import Memory, Pace, Sampling, Status
from tests.app.desk_kit import Kit, finish
from tests.app.fake_models import make_pair

FREE = Pace(1.0, (1.0,) * 5)


def test_the_gain_is_the_formula_by_hand() -> None:
    assert predicted(FREE, 0.0, 0.0) == 1.0  # nothing kept, nothing won
    assert predicted(FREE, 0.0, 1.0) == 5.0  # four drafted, and one more
    assert predicted(FREE, 0.0, 0.5) == pytest.approx(1 + 0.5 + 0.25 + 0.125 + 0.0625)
    assert predicted(FREE, 0.5, 0.5) == pytest.approx(1.0)  # k = 1: 1.5 tokens for 1.5 steps
    assert predicted(FREE, 9.0, 0.9) == 1.0  # a dear draft is not used
    assert predicted(Pace(1.0, (2.0, 2.0)), 0.0, 0.0) == 0.5  # an exact runner may cost more


def test_a_number_is_only_said_where_it_was_measured() -> None:
    pair = make_pair("smollm2-135m-instruct", "ngram")
    by = {option.id: option for option in pair.drafts}
    known = {"ngram": Record(1000, 620), "qwen2.5-coder-0.5b-instruct": Record(200, 100)}
    said = told(by["ngram"], pair, known)
    assert said.startswith("about ")
    assert "x plain: 62% of 1,000 drafted tokens kept so far" in said
    other = told(by["qwen2.5-coder-0.5b-instruct"], pair, known)
    assert other == "50% of 200 drafted tokens kept so far; its speed is measured when it is loaded"
    assert told(by["ngram"], pair, {}) == "not measured yet"
    assert told(by["ngram"], pair, {"ngram": Record(10, 9)}) == "not measured yet"
    assert told(by["none"], pair, {}) == "plain decoding: 1.0 x"
    assert told(by["ngram"], replace(pair, pace=None), known).endswith("when it is loaded")


def test_earlier_replies_are_counted_by_target_and_draft(kit: Kit) -> None:
    me = kit.owner()
    finish(kit.controller.load(me, "smollm2-135m-instruct", "ngram"))
    finish(kit.controller.desk.send(me, "hello", Options(Sampling(seed=7))))
    found = records(kit.history, "smollm2-135m-instruct")
    assert found["ngram"].drafted >= found["ngram"].kept > 0
    assert records(kit.history, "another") == {}
    assert kit.controller.draft_records(me) == found


def test_the_bar_says_every_number_also_to_who_cannot_see_it() -> None:
    html = bar(Memory(10_000_000_000, 3_000_000_000, 500_000_000, 200_000_000), "Memory")
    said = "Memory: weights 3.0 GB, draft 500 MB, caches 200 MB, free 6.3 GB, of 10 GB"
    assert f'aria-label="{said}"' in html
    assert "width: 30.00%" in html
    tight = bar(Memory(2_000_000_000, 3_000_000_000, 0, 0), "Memory")
    assert "1.0 GB too much" in tight
    assert "over" in tight
    assert "draft 0" not in tight


def test_the_sheet_offers_what_may_be_used_and_escapes_names() -> None:
    pair = make_pair("smollm2-135m-instruct", "ngram")
    odd = replace(pair.drafts[3], name="<b>No</b>")
    html = pair_sheet.sheet(
        Status("ready", replace(pair, drafts=(*pair.drafts[:3], odd))), None, None
    )
    assert "<b>No</b>" not in html
    assert "Download and use: Qwen 0.5B" in html
    assert 'aria-label="Use: n-gram' not in html  # it is used already
    assert "Memory of the loaded pair" in html
    assert pair_sheet.UNLOADED in pair_sheet.sheet(Status("unloaded"), None, None)
