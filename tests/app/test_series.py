"""Races in a row: order, seed, sums, what Stop keeps, and who may pass in between."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import pytest

from app.desk import Options
from app.race_prompts import cut, joined
from app.series import CHANGED, Plan, SeriesView, beginning, summary
from app.series_board import board, progress
from specdec import prompt_sets
from specdec.contract import Sampling
from specdec.errors import SettingError
from tests.app.desk_kit import Kit, finish, held, until

OPTIONS = Options(Sampling(temperature=0.8, max_tokens=24))
ORDER = ("standard", "speculative")
TWO = "first\n\nwith a blank line\n---\nsecond"


def run(kit: Kit, text: str = TWO, runs: int = 2) -> SeriesView:
    kit.script.token_s = 0.001
    return finish(kit.controller.races.start(kit.owner(), text, OPTIONS, ORDER, runs))  # type: ignore[arg-type, no-any-return]


def test_the_order_alternates_for_each_prompt_and_between_prompts(kit: Kit) -> None:
    kit.script.runner = "fast"
    view = run(kit)
    assert [(ran.place, ran.run, ran.order[0]) for ran in view.done] == [
        (0, 0, "standard"), (1, 0, "speculative"), (0, 1, "speculative"), (1, 1, "standard"),
    ]  # fmt: skip
    asked = [(r.mode, r.messages[-1].content) for r in kit.engine.requests]
    assert asked[:2] == [
        ("standard", "first\n\nwith a blank line"),
        ("speculative", "first\n\nwith a blank line"),
    ]
    assert [mode for mode, _ in asked[2:4]] == ["speculative", "standard"]


def test_all_races_of_a_series_share_one_seed_and_start_from_nothing(kit: Kit) -> None:
    run(kit)
    assert len({r.sampling.seed for r in kit.engine.requests}) == 1
    assert all(r.fresh and not r.remember and r.rule == "match" for r in kit.engine.requests)
    assert kit.history.conversations() == []


def test_the_sums_are_those_of_the_races(kit: Kit) -> None:
    view = run(kit)
    found = summary(view.done)
    assert found is not None
    ratios = [ran.outcome.ratio for ran in view.done]
    assert found.ratio == median(ratios)
    assert (found.lowest, found.highest) == (min(ratios), max(ratios))
    assert (found.races, found.timed, found.identical, found.compared) == (4, 4, 4, 4)
    assert found.tokens == 4 * 24
    rounds = sum(ran.speculative.rounds for ran in view.done)
    assert found.tokens_per_round == 4 * 24 / rounds
    for ran in view.done:
        mine = ran.speculative
        later = mine.new_tokens - mine.first_round_tokens
        assert ran.saved_s == pytest.approx(later / ran.outcome.baseline - mine.decode_s)
    assert found.saved_s == pytest.approx(sum(ran.saved_s for ran in view.done))
    shown = board(view)
    assert "median of 4 races" in shown
    assert "4 of 4 races had identical words; 96 tokens compared" in shown


def test_where_one_differed_the_row_says_how(kit: Kit) -> None:
    kit.script.differ_at = 12
    shown = board(run(kit, runs=1))
    assert "Differs in 2" in shown
    assert shown.count("Differs at token 13") == 2
    assert "0 of 2 races had identical words" in shown


def test_stop_ends_within_a_round_and_keeps_the_races_that_were_over(kit: Kit) -> None:
    tab = kit.owner()
    job = kit.controller.races.start(tab, "go", OPTIONS, ORDER, 5)  # type: ignore[arg-type]
    kit.script.token_s = 0.002
    until(lambda: len(job.snapshot.done) == 2)
    kit.controller.races.stop(tab)
    view = finish(job, 1)
    assert view.stopped
    assert 2 <= len(view.done) < 5
    assert view.sheet
    assert f"Stopped. {len(view.done)} of 5 races were over." in board(view)
    assert "median of" in board(view)


def test_a_failure_is_said_and_keeps_the_races_that_were_over(kit: Kit) -> None:
    job = kit.controller.races.start(kit.owner(), "go", OPTIONS, ORDER, 5)  # type: ignore[arg-type]
    kit.script.token_s = 0.002
    until(lambda: job.snapshot.done)
    kit.script.fail_after = 4
    view = finish(job)
    assert view.error is not None
    assert view.done
    shown = board(view)
    assert "ran out of memory" in shown
    assert "median of" in shown


def test_a_reply_passes_between_two_races_and_another_race_waits(kit: Kit) -> None:
    go = held(kit)
    tab = kit.owner()
    job = kit.controller.races.start(tab, "go", OPTIONS, ORDER, 2)  # type: ignore[arg-type]
    until(lambda: kit.engine.requests)
    other = kit.controller.races.start(kit.owner("two"), "wait", OPTIONS, ORDER)  # type: ignore[arg-type]
    reply = kit.controller.desk.send(kit.guest(), "let me in", OPTIONS)
    go.set()
    finish(other)
    assert reply.done.is_set()
    assert len(finish(job).done) == 2
    said = [r.messages[-1].content for r in kit.engine.requests]
    assert said == ["go"] * 3 + ["let me in"] + ["go"] * 3 + ["wait"] * 3


def test_another_model_ends_the_series_and_keeps_what_was_measured(kit: Kit) -> None:
    go = held(kit)
    tab = kit.owner()
    job = kit.controller.races.start(tab, "go", OPTIONS, ORDER, 3)  # type: ignore[arg-type]
    until(lambda: kit.engine.requests)
    kit.controller.load(tab, "qwen2.5-coder-0.5b-instruct", "none")
    go.set()
    view = finish(job)
    assert view.error == CHANGED
    assert len(view.done) == 1
    assert view.pair.target.value == "smollm2-135m-instruct"


def test_the_time_left_is_told_once_a_race_is_over() -> None:
    plan = Plan(cut("go"), 8, ORDER, OPTIONS)  # type: ignore[arg-type]
    first = beginning(plan)
    now = replace(first.now, step="standard")
    assert progress(replace(first, now=now))[0] == "Race 1 of 8 · Standard decoding is running"
    text, share = progress(replace(first, now=now, left_s=41.2, done=(None,) * 2))  # type: ignore[arg-type]
    assert text == "Race 3 of 8, about 41 s left · Standard decoding is running"
    assert share == 0.25


def test_a_guest_runs_one_race_at_a_time(kit: Kit) -> None:
    for text, runs in (("a\n---\nb", 1), ("a", 2)):
        with pytest.raises(SettingError, match="one race at a time"):
            kit.controller.races.start(kit.guest(), text, OPTIONS, ORDER, runs)  # type: ignore[arg-type]
    view = finish(kit.controller.races.start(kit.guest(), "a", OPTIONS, ORDER))  # type: ignore[arg-type]
    assert view.now.outcome.identical
    assert view.sheet == ""


@pytest.mark.parametrize(("runs", "text"), [(0, "a"), (21, "a"), (20, TWO * 6), (1, " \n---\n ")])
def test_too_many_races_and_none_are_refused(kit: Kit, runs: int, text: str) -> None:
    with pytest.raises(SettingError):
        kit.controller.races.start(kit.owner(), text, OPTIONS, ORDER, runs)  # type: ignore[arg-type]
    assert kit.engine.requests == []


def test_prompts_that_come_along_are_known_by_name() -> None:
    texts = prompt_sets.load("copying")
    found = cut(joined(texts))
    assert [prompt.text for prompt in found] == [text.strip() for text in texts]
    assert [prompt.name for prompt in found] == [f"copying {n}" for n in range(1, len(texts) + 1)]
    assert [prompt.name for prompt in cut("mine --- still mine")] == [""]


# --- as a conversation --------------------------------------------------------------------------


def test_both_lanes_go_on_with_their_own_words_and_nothing_is_stored(kit: Kit) -> None:
    tab = kit.owner()
    first = run(kit, "one", 1)
    view = finish(kit.controller.races.go_on(tab, "two"))
    requests = [r for r in kit.engine.requests[3:] if r.runner == "auto"]
    assert {r.mode for r in requests} == {"standard", "speculative"}
    for request in requests:
        lane = first.now.lane(request.mode)
        said = [(m.role, m.content, m.ids) for m in request.messages]
        assert said == [
            ("user", "one", ()), ("assistant", lane.text, lane.ids), ("user", "two", ()),
        ]  # fmt: skip
        assert request.fresh
    assert view.now.outcome.identical
    assert [past.prompt for past in view.now.past] == ["one"]
    third = finish(kit.controller.races.go_on(tab, "three"))
    assert [past.prompt for past in third.now.past] == ["one", "two"]
    assert board(third).count('class="asked"') == 6
    assert kit.history.conversations() == []


def test_lanes_that_had_other_words_are_not_compared(kit: Kit) -> None:
    kit.script.differ_at = 5
    run(kit, "one", 1)
    kit.script.differ_at = None
    view = finish(kit.controller.races.go_on(kit.owner(), "two"))
    assert not view.now.outcome.comparable
    assert not view.now.outcome.identical
    assert view.now.outcome.ratio
    shown = board(view)
    assert "Not compared" in shown
    assert "Same words" not in shown


def test_going_on_needs_a_race_and_a_message(kit: Kit) -> None:
    with pytest.raises(SettingError, match="No race is over"):
        kit.controller.races.go_on(kit.owner(), "two")
    run(kit, "one", 1)
    with pytest.raises(SettingError, match="empty"):
        kit.controller.races.go_on(kit.owner(), "  ")
