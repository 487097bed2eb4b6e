"""The race: same seed, empty caches, a fair baseline, and nothing identical unless compared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.desk import Options
from app.race import first_difference
from app.race_board import board
from specdec.contract import Comparison, Sampling
from specdec.errors import SettingError
from tests.app.desk_kit import Kit, finish, held

OPTIONS = Options(Sampling(temperature=0.8))


def run(kit: Kit, order: tuple[str, str] = ("standard", "speculative")):  # type: ignore[no-untyped-def]
    return finish(kit.controller.races.start(kit.owner(), "race me", OPTIONS, order)).now  # type: ignore[arg-type]


def test_both_lanes_share_seed_and_prompt_and_start_from_an_empty_cache(kit: Kit) -> None:
    run(kit)
    lanes = kit.engine.requests[:2]
    assert [r.mode for r in lanes] == ["standard", "speculative"]
    assert all(r.fresh for r in kit.engine.requests)
    assert lanes[0].sampling.seed is not None
    assert lanes[0].sampling == lanes[1].sampling
    assert lanes[0].messages == lanes[1].messages


def test_the_order_can_be_turned_round(kit: Kit) -> None:
    run(kit, ("speculative", "standard"))
    assert [r.mode for r in kit.engine.requests[:2]] == ["speculative", "standard"]


def test_nothing_is_cached(kit: Kit) -> None:
    run(kit)
    run(kit)
    seeds = {r.sampling.seed for r in kit.engine.requests}
    assert len(kit.engine.requests) == 6
    assert len(seeds) == 2


def test_a_static_run_also_times_the_fast_runner_and_the_faster_one_is_the_baseline(
    kit: Kit,
) -> None:
    kit.script.token_s = 0.002
    view = run(kit)
    probe = kit.engine.requests[2]
    assert (probe.runner, probe.mode) == ("fast", "standard")
    speeds = {
        "static": view.standard.metrics.tok_s,
        "fast": view.probe.metrics.tok_s,
    }
    assert view.outcome.baseline == max(speeds.values())
    assert speeds[view.outcome.baseline_runner] == view.outcome.baseline
    assert view.outcome.ratio == view.speculative.metrics.tok_s / view.outcome.baseline


def test_a_fast_run_needs_no_probe(kit: Kit) -> None:
    kit.script.runner = "fast"
    assert run(kit).probe is None
    assert len(kit.engine.requests) == 2


def test_a_probe_that_fails_is_said_and_the_race_still_counts(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = kit.engine.stream

    def no_fast(request, cancel):  # type: ignore[no-untyped-def]
        kit.script.fail_after = 3 if request.runner == "fast" else None
        return stream(request, cancel)

    monkeypatch.setattr(kit.engine, "stream", no_fast)
    view = run(kit)
    assert view.outcome.baseline_runner == "static"
    assert view.outcome.identical
    assert "could not be timed: The engine ran out of memory." in board(view)


def test_equal_ids_are_called_the_same_only_after_comparing_them(kit: Kit) -> None:
    view = run(kit)
    assert view.outcome.identical
    assert view.outcome.compared == len(view.speculative.ids)
    assert f"all {view.outcome.compared} tokens compared" in board(view)


def test_a_difference_is_shown_with_place_texts_and_gap(kit: Kit) -> None:
    kit.script.differ_at = 12
    view = run(kit)
    assert not view.outcome.identical
    assert view.outcome.difference.index == 12
    assert view.outcome.difference.standard.startswith("otherwise") or (
        " otherwise" in view.outcome.difference.standard
    )
    shown = board(view)
    assert "Differs at token 13" in shown
    assert "a tie within 0.02" in shown
    assert "Same words" not in shown


@pytest.mark.parametrize(
    ("gap", "at", "said"),
    [
        (-0.04, 12, "a tie within 0.04"),
        (0.3, 12, "apart by 0.3"),
        (-3.0, 12, "at the border of a filter"),
        (0.02, 9, ""),  # of another place: it says nothing about this one
    ],
)
def test_the_gap_is_called_what_it_is(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, gap: float, at: int, said: str
) -> None:
    kit.script.differ_at = 12
    found = Comparison(False, at + 1, at, gap, " otherwise", " so")
    monkeypatch.setattr(kit.engine, "verify", lambda reply, cancel: found)
    shown = board(run(kit))
    assert said in shown
    for other in ("a tie within", "apart by", "border of a filter"):
        assert (other in shown) == (bool(said) and other in said)


def test_a_reply_too_short_to_time_has_no_ratio(kit: Kit) -> None:
    kit.script.reply = "Yes"
    view = run(kit)
    assert view.outcome.ratio is None
    shown = board(view)
    assert "too short to time" in shown
    assert "– against – tok/s" in shown
    assert "the faster of the two" not in shown  # neither was timed
    assert view.probe is not None


def test_the_faster_of_two_is_said_when_both_were_timed(kit: Kit) -> None:
    kit.script.token_s = 0.002
    assert "the faster of the two plain runners" in board(run(kit))


def test_the_longest_draft_counts_in_the_speculative_lane(kit: Kit) -> None:
    options = replace(OPTIONS, k=3)
    order = ("standard", "speculative")
    finish(kit.controller.races.start(kit.owner(), "race me", options, order))  # type: ignore[arg-type]
    assert {r.mode: r.k for r in kit.engine.requests} == {"standard": None, "speculative": 3}


def test_under_the_rule_reject_the_board_says_that_the_race_uses_match(kit: Kit) -> None:
    options = replace(OPTIONS, rule="reject")
    order = ("standard", "speculative")
    view = finish(kit.controller.races.start(kit.owner(), "race me", options, order)).now  # type: ignore[arg-type]
    assert {r.rule for r in kit.engine.requests} == {"match"}
    assert "the race uses match" in board(view)
    assert "the race uses match" not in board(run(kit))


def test_a_race_that_was_stopped_or_failed_compares_nothing(kit: Kit) -> None:
    kit.script.fail_after = 8
    view = run(kit)
    assert view.outcome is None
    assert view.error is not None
    assert "ran out of memory" in board(view)
    kit.script.fail_after, kit.script.token_s = None, 0.02
    tab = kit.owner()
    job = kit.controller.races.start(tab, "race me", OPTIONS, ("standard", "speculative"))
    kit.controller.races.stop(tab)
    view = finish(job, 3).now
    assert view.stopped
    assert view.outcome is None
    assert "Nothing was compared" in board(view)


def test_a_race_is_never_stored_and_needs_a_prompt(kit: Kit) -> None:
    run(kit)
    assert kit.history.conversations() == []
    with pytest.raises(SettingError):
        kit.controller.races.start(kit.owner(), "  ", OPTIONS, ("standard", "speculative"))


@pytest.mark.parametrize(
    ("one", "other", "at"),
    [((1, 2), (1, 2), None), ((1, 2), (1, 3), 1), ((1,), (1, 2), 1), ((), (), None), ((), (1,), 0)],
)
def test_first_difference(one: tuple[int, ...], other: tuple[int, ...], at: int | None) -> None:
    assert first_difference(one, other) == at


def test_the_owners_race_is_taken_back_by_a_new_tab_and_a_guests_ends(kit: Kit) -> None:
    races = kit.controller.races
    gate = held(kit)
    mine = races.start(kit.owner("one"), "race me", OPTIONS, ("standard", "speculative"))
    other = kit.owner("two")
    assert races.back(other) is None  # while its own tab has it
    kit.controller.leave("one")
    assert races.back(kit.guest("visitor")) is None
    assert races.back(other) is mine
    assert races.back(kit.owner("three")) is None
    gate.set()
    assert finish(mine).now.outcome is not None
    assert races.back(other) is mine  # over, and still shown

    gate = held(kit)
    visitor = kit.guest("visitor")
    theirs = races.start(visitor, "race me", OPTIONS, ("standard", "speculative"))
    kit.controller.leave("visitor")
    assert races.back(kit.guest("visitor again")) is None
    gate.set()
    assert finish(theirs).stopped
