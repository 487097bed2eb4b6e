"""The benchmark tab: who may, what is refused, what the plan and the files say."""

from __future__ import annotations

import csv
import io
import json

import pytest

from app.bench_board import board
from app.bench_plan import BenchPlan, prompts_of
from app.bench_view import rows_of
from specdec.bench.report import PUBLISHED
from specdec.errors import BusyError, SettingError
from tests.app.bench_kit import start
from tests.app.desk_kit import Kit, finish


def test_only_the_owner_measures_and_one_at_a_time(loaded: Kit) -> None:
    benches, guest = loaded.controller.benches, loaded.guest()
    for act in (
        lambda: benches.start(guest, ("ngram",), ("chat",), 1, 16, 1),
        lambda: benches.stop(guest),
        lambda: benches.current(guest),
        lambda: benches.drafters(guest),
    ):
        with pytest.raises(SettingError, match="guest"):
            act()
    job = start(loaded, first=8)
    with pytest.raises(BusyError):
        start(loaded)
    benches.stop(loaded.owner())
    finish(job)


@pytest.mark.parametrize(
    ("drafters", "kinds", "first", "tokens", "runs"),
    [
        ((), ("chat",), 1, 16, 1),
        (("ngram",), (), 1, 16, 1),
        (("qwen3-32b",), ("chat",), 1, 16, 1),
        (("ngram",), ("no such kind",), 1, 16, 1),
        (("ngram",), ("chat",), 0, 16, 1),
        (("ngram",), ("chat",), 1, 2, 1),
        (("ngram",), ("chat",), 1, 16, 0),
    ],
)
def test_what_measures_nothing_is_refused(
    loaded: Kit,
    drafters: tuple[str, ...],
    kinds: tuple[str, ...],
    first: int,
    tokens: int,
    runs: int,
) -> None:
    with pytest.raises(SettingError):
        loaded.controller.benches.start(loaded.owner(), drafters, kinds, first, tokens, runs)
    assert loaded.engine.requests == []


def test_nothing_loaded_is_said(kit: Kit) -> None:
    assert kit.controller.benches.drafters(kit.owner()) == []
    with pytest.raises(SettingError, match="No model is loaded"):
        start(kit)


def test_a_plan_takes_the_first_prompts_of_each_kind() -> None:
    plan = BenchPlan(("none", "ngram"), prompts_of(("chat", "code"), 1), 16, 2)
    assert plan.parts == ("ngram",)
    assert [(kind, place, run) for kind, place, run, _ in plan.turns()] == [
        ("chat", 0, 0), ("code", 0, 0), ("chat", 0, 1), ("code", 0, 1),
    ]  # fmt: skip


def test_the_files_say_what_the_board_says(loaded: Kit) -> None:
    view = finish(start(loaded))
    sheet = loaded.controller.measured.get(view.sheet)
    assert sheet is not None
    found = json.loads(sheet.files["json"]())
    assert (found["schema"], found["version"]) == ("specdec.bench", 1)
    assert list(found["rows"][0]) == list(PUBLISHED)
    assert found["card"]["settings"]["prompts"] == {"chat": 2, "code": 2}
    table = list(csv.DictReader(io.StringIO(sheet.files["csv"]().decode())))
    rows = rows_of(view.parts)
    assert [(r["kind"], r["drafter"]) for r in table] == [(r.kind, r.drafter) for r in rows]
    assert float(table[0]["tok_s"]) == round(rows[0].tok_s, 4)
    shown = board(view)
    assert f"/measured/{view.sheet}.csv" in shown
    assert all(f">{row.kind}</th>" in shown for row in rows)
