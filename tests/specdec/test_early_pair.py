"""Early exit beside a target, end to end: asked for, calibrated, listed, or refused with why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from app import pair_sheet
from specdec.contract import Failed, Loaded, Message, Round
from specdec.early_drafting import no_early_exit, told
from specdec.engine import LocalEngine
from specdec.exit_calibration import Exit
from specdec.loading import Model
from specdec.options import EngineOptions
from specdec.pairing import WITHOUT_FILES
from tests.specdec.engines import ask, load, of_kind, reply
from tests.specdec.exit_kit import idle_after
from tests.tiny import tiny_model

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One whose later layers add nothing, one whose layers all matter, one of two layers."""
    base = tmp_path_factory.mktemp("early")
    idle_after(tiny_model(base / "idle", seed=2, num_hidden_layers=8), 3)
    tiny_model(base / "busy", seed=3, num_hidden_layers=4)
    tiny_model(base / "flat", seed=3)
    (base / "data").mkdir()
    return base


def engine(models: Path, **asked: str) -> LocalEngine:
    forms = {"dtype": "float32", **asked}
    return LocalEngine(EngineOptions(models / "data", device="cpu", offline=True, **forms))


@pytest.fixture
def idle(models: Path) -> Iterator[LocalEngine]:
    made = engine(models)
    load(made, models / "idle", "early-exit")
    yield made
    made.close()


def test_the_layer_where_the_rest_agrees_is_found_and_said(idle: LocalEngine) -> None:
    """Its cost is told as net: what scoring saves is taken off, so they cannot be timed apart."""
    pair = idle.status().pair
    assert pair is not None
    assert pair.draft.value == "early-exit"
    assert pair.draft.reason.startswith("asked for; ")
    assert "after layer 3 of 8: 100% agreement" in pair.draft.reason
    assert "of a step; " in pair.draft.reason
    assert "ms a token" in pair.draft_dtype.reason
    known = idle._session.make_length(None)._pair  # type: ignore[union-attr]
    assert known.drafts["early-exit"].net  # type: ignore[attr-defined]


@pytest.mark.parametrize("rule", ["match", "reject"])
def test_what_agrees_is_kept(idle: LocalEngine, rule: str) -> None:
    for temperature in (0, 0.9):
        request = ask("go", temperature=temperature, rule=rule, k=4, runner="static", fresh=True)
        events, last = reply(idle, request)
        assert last.metrics.drafted > 8
        assert last.metrics.acceptance > 0.9
        assert "early-exit" in {r.source for r in of_kind(events, Round)}
        if rule == "match":
            _, plain = reply(idle, replace(request, mode="standard"))
            assert last.ids == plain.ids


def test_plain_replies_between_and_reused_prefixes_change_nothing(models: Path) -> None:
    made = engine(models)
    load(made, models / "busy", "early-exit")
    talk = [Message("user", "Which colours has the sky, and when? " * 4)]
    for turn in range(3):
        request = ask("", messages=tuple(talk), temperature=turn / 2, seed=turn, k=3)
        request = replace(request, conversation="c", runner="static", mode="speculative")
        if turn == 1:
            reply(made, replace(request, mode="standard"))
        _, last = reply(made, request)
        plain = replace(request, mode="standard", conversation="plain", fresh=True)
        assert reply(made, plain)[1].ids == last.ids
        assert last.metrics.drafted > 20
        talk += [Message("assistant", last.text, last.ids), Message("user", "And then?")]
    made.close()


def test_it_is_listed_with_its_reason_and_never_chosen_unasked(models: Path) -> None:
    made = engine(models)
    last = list(made.load(str(models / "idle"), None))[-1]
    assert isinstance(last, Loaded)
    options = {option.id: option for option in last.pair.drafts}
    assert options["early-exit"].verdict == "possible"
    assert "trained to be left early" in options["early-exit"].reason
    assert last.pair.draft.value != "early-exit"
    assert list(options)[-3:] == ["early-exit", "ngram", "none"]
    assert {value for _, value in pair_sheet.DRAFTERS} == set(WITHOUT_FILES)


def test_too_few_layers_are_refused_and_listed_so(models: Path) -> None:
    made = engine(models)
    last = list(made.load(str(models / "flat"), "early-exit"))[-1]
    assert isinstance(last, Failed)
    assert last.error.kind == "PairError"
    assert "2 layers, and needs 4" in last.error.message
    options = load(made, models / "flat", "ngram").pair.drafts
    (early,) = [option for option in options if option.id == "early-exit"]
    assert (early.verdict, early.usable) == ("rejected", False)


def test_targets_that_run_all_layers_or_none_are_refused(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = engine(models)
    monkeypatch.setattr("specdec.early_drafting.recorder_of", lambda device: object())
    last = list(made.load(str(models / "busy"), "early-exit"))[-1]
    assert isinstance(last, Failed)
    assert "calls are captured" in last.error.message
    assert "transformers" in no_early_exit(without_weights())


def without_weights() -> Model:
    numbers = {"layers": 8, "kv_heads": 1, "head_dim": 8, "hidden": 8, "vocab": 9, "context": 64}
    return Model(
        "X", torch.device("cpu"), torch.float32, "dense", weight_bytes=1, step_bytes=1, lean=False,
        module=object(), **numbers,
    )  # fmt: skip


def test_a_prediction_says_that_it_would_lose() -> None:
    lost = told(Exit(12, 0.31, 0.04, 0.93, 1), 30, 0.1)
    assert lost == (
        "after layer 12 of 30: 31% agreement, a drafted token takes 0.40 of a step; would lose"
        " (0.93 times plain at best)"
    )
    assert "predicted 1.50 times plain with 3 drafted" in told(Exit(9, 0.9, 0.02, 1.5, 3), 30, 0.1)
