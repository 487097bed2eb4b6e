"""The benchmark tab's engine: parts, sums, what comes back, who passes, who may."""

from __future__ import annotations

from statistics import median

import pytest

from app.bench_board import board, progress
from app.bench_view import BenchView, rows_of
from app.desk import Options
from app.series import CHANGED
from app.timing import timed
from specdec.contract import ChatRequest, ErrorInfo, Finished, Message, NeverCancel, Sampling
from tests.app.bench_kit import start
from tests.app.desk_kit import Kit, finish, held, until

DRAFT = "qwen2.5-coder-0.5b-instruct"


def pair_of(kit: Kit) -> tuple[str, str]:
    pair = kit.engine.status().pair
    assert pair is not None
    return pair.target.value, pair.draft.value


def test_each_drafter_is_timed_beside_plain_decoding_in_both_runners(loaded: Kit) -> None:
    view = finish(start(loaded))
    assert [part.drafter for part in view.parts] == ["ngram", "auto"]
    for part in view.parts:
        made = {(s.kind, s.place, s.drafter) for s in part.samples}
        assert made == {
            (kind, place, name)
            for kind in ("chat", "code")
            for place in (0, 1)
            for name in ("plain", "plain-fast", part.drafter)
        }
    requests = loaded.engine.requests
    assert all(r.fresh and not r.remember and r.rule == "match" for r in requests)
    assert {(r.sampling.temperature, r.sampling.seed) for r in requests} == {(0.0, 0)}
    assert view.step == view.plan.steps == 8


def test_a_reply_is_timed_by_the_engine_s_clock(loaded: Kit) -> None:
    request = ChatRequest((Message("user", "hello"),))
    made = timed(loaded.engine, request, NeverCancel())
    end = loaded.engine.events[-1]
    assert made.reply is not None
    assert isinstance(end, Finished)
    assert made.reply.tok_s == pytest.approx(end.metrics.tok_s)
    assert made.reply.first_s == end.metrics.first_token_s
    assert (made.reply.rounds, made.reply.tokens) == (end.metrics.rounds, end.metrics.new_tokens)


def test_the_order_turns_and_kinds_take_turns(loaded: Kit) -> None:
    view = finish(start(loaded, ("ngram",)))
    asked = [(r.mode, r.runner) for r in loaded.engine.requests if r.sampling.max_tokens == 16]
    plain, fast, drafted = ("standard", "auto"), ("standard", "fast"), ("speculative", "auto")
    assert asked[:6] == [fast, drafted, plain, drafted, plain, fast]
    assert [s.kind for s in view.parts[0].samples[::3]] == ["chat", "code", "chat", "code"]


def test_one_runner_is_timed_once(loaded: Kit) -> None:
    loaded.script.runner = "fast"
    view = finish(start(loaded, ("ngram",), first=1))
    assert {s.drafter for s in view.parts[0].samples} == {"plain", "ngram"}


def test_rows_are_medians_and_the_ratio_is_to_the_faster_plain_of_its_own_part(loaded: Kit) -> None:
    view = finish(start(loaded, runs=2))
    rows = {(row.kind, row.drafter): row for row in rows_of(view.parts)}
    part = view.parts[1]
    speeds = {
        name: {
            (s.place, s.run): s.reply.tok_s
            for s in part.samples
            if s.kind == "code" and s.drafter == name
        }
        for name in ("plain", "plain-fast", "auto")
    }
    base = max(("plain", "plain-fast"), key=lambda name: median(speeds[name].values()))
    row = rows["code", "auto"]
    assert row.tok_s == median(speeds["auto"].values())
    assert row.ratio_to_plain == median(
        speed / speeds[base][at] for at, speed in speeds["auto"].items()
    )
    assert (row.same, row.compared) == (4, 4)
    assert row.accepted is not None
    assert 0 < row.accepted <= row.drafted
    assert rows["code", "plain"].compared == 8  # of both parts
    assert [row.kind for row in rows_of(view.parts)] == ["chat"] * 4 + ["code"] * 4


def test_words_that_differ_are_counted(loaded: Kit) -> None:
    loaded.script.differ_at = 3
    rows = {row.drafter: row for row in rows_of(finish(start(loaded, ("ngram",), ("chat",))).parts)}
    assert (rows["ngram"].same, rows["ngram"].compared) == (0, 2)
    assert "0 of 2" in board(finish(start(loaded, ("ngram",), ("chat",))))


def test_plain_decoding_alone_needs_no_load(loaded: Kit) -> None:
    before = list(loaded.engine.loads)
    view = finish(start(loaded, ("none",), first=1))
    assert {s.drafter for s in view.parts[0].samples} == {"plain", "plain-fast"}
    assert loaded.engine.loads == before


def test_the_pair_of_before_comes_back_and_the_settings_never_knew(loaded: Kit) -> None:
    view = finish(start(loaded, ("auto", "none")))
    assert view.error is None
    assert pair_of(loaded) == ("smollm2-135m-instruct", "ngram")
    kept = loaded.settings.settings
    assert (kept.target, kept.draft) == ("smollm2-135m-instruct", "ngram")
    assert loaded.controller.load_error() is None


def test_stop_ends_within_a_round_keeps_the_figures_and_brings_the_pair_back(loaded: Kit) -> None:
    job = start(loaded, ("auto",), first=8)
    until(lambda: job.snapshot.step >= 2)
    loaded.controller.benches.stop(loaded.owner())
    view = finish(job, 2)
    assert view.stopped
    assert view.ended
    assert view.step < view.plan.steps
    assert view.sheet
    assert pair_of(loaded)[1] == "ngram"
    assert f"Stopped. {view.step} of 16 prompts were measured." in board(view)


def test_stop_while_a_draft_is_loaded_brings_the_pair_back(loaded: Kit) -> None:
    loaded.script.load_s = 0.4
    job = start(loaded, ("auto",))
    until(lambda: job.snapshot.phase)
    loaded.controller.benches.stop(loaded.owner())
    view = finish(job, 3)
    assert view.stopped
    assert view.error is None
    assert pair_of(loaded)[1] == "ngram"
    assert loaded.controller.load_error() is None


def test_a_draft_that_cannot_be_loaded_is_said_and_the_next_has_its_turn(
    loaded: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = loaded.engine.load

    def no_auto(target=None, draft=None):  # type: ignore[no-untyped-def]
        fail = {"smollm2-135m-instruct": ErrorInfo("LoadError", "Too <big>.", "")}
        loaded.script.fail_load = fail if draft == "auto" else {}
        return load(target, draft)

    monkeypatch.setattr(loaded.engine, "load", no_auto)
    finish(loaded.controller.load(loaded.owner(), "smollm2-135m-instruct", "none"))
    view = finish(start(loaded, ("auto", "ngram"), first=1))
    errors = {part.drafter: part.error for part in view.parts}
    assert errors["auto"] is not None
    assert errors["ngram"] is None
    assert view.step == view.plan.steps
    assert pair_of(loaded)[1] == "none"
    assert "Too &lt;big&gt;." in board(view)
    assert loaded.controller.load_error() is None


def test_a_reply_that_fails_ends_its_part_only(loaded: Kit) -> None:
    loaded.script.fail_after = 12
    view = finish(start(loaded, ("ngram", "auto"), first=1))
    assert [part.error is not None for part in view.parts] == [True, True]
    assert view.error is None
    assert pair_of(loaded)[1] == "ngram"


def test_a_reply_passes_between_two_prompts(loaded: Kit) -> None:
    go = held(loaded)
    job = start(loaded, ("ngram",), ("chat",))
    until(lambda: loaded.engine.requests)
    reply = loaded.controller.desk.send(loaded.guest(), "let me in", Options(Sampling()))
    race = loaded.controller.races.start(
        loaded.owner(), "race", Options(Sampling()), ("standard", "speculative")
    )
    go.set()
    finish(job)
    assert reply.done.is_set()
    assert not race.snapshot.done
    finish(race)


def test_another_model_by_the_owner_ends_it_and_stays(loaded: Kit) -> None:
    go = held(loaded)
    job = start(loaded, ("auto",), first=8)
    until(lambda: loaded.engine.requests)
    loaded.controller.load(loaded.owner(), DRAFT, "none")
    go.set()
    view = finish(job)
    assert view.error == CHANGED
    assert pair_of(loaded) == (DRAFT, "none")
    assert loaded.settings.settings.target == DRAFT


def test_closing_the_program_loads_nothing_more(loaded: Kit) -> None:
    job = start(loaded, ("auto",), first=8)
    until(lambda: job.snapshot.step >= 1)
    loads = len(loaded.engine.loads)
    loaded.controller.close()
    finish(job, 2)
    assert len(loaded.engine.loads) == loads


def test_the_time_left_is_told_after_the_first_prompt(loaded: Kit) -> None:
    job = start(loaded, ("ngram",), first=8)
    until(lambda: job.snapshot.left_s is not None)
    assert " of 16 prompts, about " in progress(job.snapshot)[0]
    first = BenchView(job.snapshot.plan, "x", doing="ngram: warming up")
    assert progress(first) == ("0 of 16 prompts · ngram: warming up", 0.0)
    finish(job)
