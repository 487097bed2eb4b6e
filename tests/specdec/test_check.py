"""`specdec check`: it passes on a true pair, and every part of it fails on what it must notice."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from specdec import check as checking
from specdec.assemble import WIDTH, Target, load_target, with_draft
from specdec.check import check, difference_between, mixed
from specdec.check_report import Case, Difference, LawRow, Near, Report
from specdec.check_runners import Runners, open_runners
from specdec.cli import main
from specdec.depot import Depot
from specdec.errors import SettingError
from specdec.loading import Model
from specdec.measure import choose_runner
from specdec.options import EngineOptions
from specdec.session import Session
from specdec.trial import Said
from tests.fakes import Uneven
from tests.specdec.engines import Folders, make_folders

pytestmark = pytest.mark.usefixtures("one_thread")

PROMPTS = (("copying", 1, "abab abab abab"), ("code", 1, "f(x)"))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return make_folders(tmp_path_factory.mktemp("check"))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short replies, one place, few samples: what is shown here needs no more."""
    monkeypatch.setattr(checking, "REPLY", 20)
    monkeypatch.setattr(checking, "PLACES", 1)
    monkeypatch.setattr(checking, "SAMPLES", 100)


Change = Callable[[Model], Model]


def load(folders: Folders, change: Change | None = None) -> tuple[Session, Target]:
    """The tiny target in bf16, with itself in int4 as draft: near, and not the same."""
    options = EngineOptions(folders.data, device="cpu", dtype="bfloat16", offline=True)
    depot = Depot(options, lambda phase: None, lambda: False)
    target = load_target(depot, str(folders.target))
    if change is not None:
        ground = replace(target.ground, model=change(target.ground.model))
        runner = choose_runner(ground.model, WIDTH, ground.context, len(ground.tokenizer))
        target = replace(target, ground=replace(ground, runner=runner))
    return with_draft(depot, target, str(folders.target)), target


def uneven(model: Model) -> Model:
    """The first layer gives other bits at every number of rows; one width hides it."""
    weights = model.weights
    assert weights is not None
    matrix = weights.layers[0].down
    down = Uneven(matrix(torch.eye(matrix.width, dtype=weights.dtype)).T.contiguous())
    first = replace(weights.layers[0], down=down)
    return replace(model, weights=replace(weights, layers=(first, *weights.layers[1:])), even={})


def run(session: Session, runners: Runners, tokens: int = 40, **rest: Any) -> Report:
    return check(session, runners, tokens, lambda text: None, PROMPTS, **rest)


@pytest.mark.usefixtures("small")
def test_a_true_pair_says_the_same(folders: Folders) -> None:
    session, target = load(folders)
    report = run(session, open_runners(session, target))
    assert (report.why_not, report.differences) == ("", ())
    assert report.kinds == ("copying", "code")
    assert 40 <= report.tokens == report.replayed
    assert report.compared == 2 * report.tokens  # the pair's draft and n-grams
    assert all(row.explained for row in report.near)
    assert {row.draft for row in report.laws} >= {"second best", session.drafter.name}
    assert all(row.holds for row in report.laws)
    assert sum(report.rounds.values()) > report.rounds["full"] > 0  # something was at risk
    enough = replace(report, rounds=dict.fromkeys(report.rounds, 20))
    assert enough.passed
    assert enough.verdict().startswith(f"check passed: {report.tokens:,} tokens identical")


@pytest.mark.usefixtures("small")
def test_a_plain_side_of_another_width_is_caught(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "PLACES", 0)
    monkeypatch.setattr(checking, "REPLY", 12)
    session, target = load(folders, uneven)
    runners = open_runners(session, target)
    assert (runners.name, runners.why_not) == ("static", "")
    assert run(session, runners).differences == ()
    report = run(session, replace(runners, plain=runners.single))
    assert report.differences
    assert not report.passed
    assert "(a)" in report.faults[0]
    assert any("plain says" in line for line in report.lines())
    # what was said in the static runner is still explained by how far the two runners differ
    assert report.near
    assert all(row.explained for row in report.near)
    # nor does a runner pass that only claims to be exact
    claimed = replace(runners, made=runners.single, plain=runners.single)
    assert run(session, claimed, tokens=1).differences


def test_without_an_exact_runner_it_fails_and_says_why(folders: Folders) -> None:
    session, target = load(folders, lambda model: replace(model, even={8: ()}))
    runners = open_runners(session, target)
    assert "same bits" in runners.why_not
    report = replace(passing(), why_not=runners.why_not)
    assert "(a) is not possible" in report.verdict()


def test_a_model_that_only_transformers_runs_says_so(folders: Folders) -> None:
    session, target = load(folders, lambda model: replace(model, even={8: ()}))
    own = session.open_scorer

    def fast_only(name: str) -> Any:
        if name == "static":
            raise SettingError("No static runner.", "It is foreign.")
        return own("fast")

    session.open_scorer = fast_only
    assert open_runners(session, target).why_not == "No static runner. It is foreign."


def test_replies_differ_by_their_ids_or_by_their_end() -> None:
    def decode(ids: Sequence[int]) -> str:
        return "".join(chr(96 + i) for i in ids)

    case = Case("code", 1, 0.0)
    plain = Said((1, 2, 3), "length")
    assert difference_between(decode, case, "d", plain, replace(plain, outcomes=((1, 0),))) is None
    for said, place, expected, got in (
        (Said((1, 4, 3), "length"), 1, "b", "d"),
        (Said((1, 2), "end"), 2, "c", "the end (end)"),
        (Said((1, 2, 3), "end"), 3, "the end (length)", "the end (end)"),
    ):
        found = difference_between(decode, case, "d", plain, said)
        assert found == Difference(case, "d", place, expected, got)


def passing() -> Report:
    """What a check that passes looks like."""
    law = LawRow(Case("code", 1, 0.0), 3, "ngram", 100, 0.5, 0, True)
    pair = dict.fromkeys(("target", "draft", "device", "dtype"), "x")
    rounds = {"full": 20, "partial": 20, "zero": 20}
    return Report(pair, "static", "", ("code",), 2, 1204, 2408, rounds, 1204, 1.0, 1.0, laws=(law,))


def test_the_verdict_names_each_fault() -> None:
    good, case = passing(), Case("code", 1, 0.8)
    assert good.passed
    assert "1,204 tokens identical" in good.verdict()
    assert "rounds 20 full / 20 partial / 20 none" in good.verdict()
    tie = Near(case, 4, "a", "b", 0.02, 0.01, True, True)
    assert replace(good, near=(tie,)).passed
    bad = {
        "(a) 1 replies differ": replace(good, differences=(Difference(case, "d", 1, "a", "b"),)),
        "(c) 1 tokens": replace(good, near=(tie, replace(tie, explained=False))),
        "(d) 1 law tests": replace(good, laws=(replace(good.laws[0], holds=False),)),
        "(d) no law": replace(good, laws=()),
        "too few": replace(good, rounds={"full": 20, "partial": 19, "zero": 20}),
        "nothing was compared": replace(good, tokens=0),
        "not possible: no": replace(good, why_not="no"),
    }
    for words, report in bad.items():
        assert not report.passed
        assert len(report.faults) == 1
        assert words in report.verdict()
        last = list(report.lines())[-1]
        assert last == report.verdict()
        assert last.startswith("check FAILED")
        assert "\n" not in last
        assert json.loads(json.dumps(report.to_json()))["passed"] is False


def test_every_kind_of_prompt_comes_first() -> None:
    rows = list(mixed())
    kinds = {kind for kind, _, _ in rows}
    assert {kind for kind, _, _ in rows[: len(kinds)]} == kinds
    assert len(set(rows)) == len(rows)


@pytest.mark.usefixtures("small")
def test_the_command_prints_findings_and_fails_on_too_few_rounds(
    folders: Folders, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checking, "mixed", lambda: PROMPTS[:1])
    words = ["check", "--target", str(folders.target), "--draft", "none", "--dtype", "float32"]
    words += ["--data-dir", str(folders.data), "--offline", "--device", "cpu", "--tokens", "1"]
    assert main(words) == 1
    out, err = capsys.readouterr()
    assert out.splitlines()[-1].startswith("check FAILED: too few rounds")
    assert "copying 1 at T = 0.8" in err
    monkeypatch.setattr("specdec.check_report.ENOUGH", 0)
    assert main([*words, "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["passed"] is True
    assert err.splitlines()[-1].startswith("check passed")


def test_bad_input_is_refused_before_anything_is_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["check", "--data-dir", str(tmp_path), "--offline"]
    assert main([*common, "--tokens", "0"]) == 2
    assert "tokens is 0" in capsys.readouterr().err
    assert main([*common, "--target", "smolm2-135m"]) == 2
    assert "smollm2-135m-instruct" in capsys.readouterr().err
