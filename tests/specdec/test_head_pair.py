"""A head beside a target, end to end: named as a folder, found by the registry, or refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specdec.contract import (
    ChatRequest,
    Failed,
    Finished,
    Loaded,
    Message,
    NeverCancel,
    Pair,
    Round,
    Sampling,
)
from specdec.engine import LocalEngine
from specdec.options import EngineOptions
from specdec.registry import load_registry, local_entry
from tests.specdec.head_kit import config_of, tensors_of, write_head
from tests.tiny import ROWS, tiny_model

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target, a head of its width in either layout, and one of another width."""
    base = tmp_path_factory.mktemp("heads")
    tiny_model(base / "target", hidden_size=32)
    for layout, seed in (("speculators", 3), ("eagle", 4)):
        config = config_of("plain", drafts=64, vocab_size=ROWS)
        write_head(base / layout, config, tensors_of(config, seed, own_embed=False), layout)
    config = config_of("plain", drafts=64, vocab_size=ROWS, hidden_size=48)
    write_head(base / "wide", config, tensors_of(config, 5))
    return base


def engine(models: Path, data: Path, *rows: dict[str, Any], **asked: Any) -> LocalEngine:
    data.mkdir()
    row = {"id": "t", "name": "T", "family": "Tiny", "roles": ["target"], "tokens": "tiny"}
    row |= {"folder": str(models / "target")}
    (data / "models.json").write_text(json.dumps({"models": [row, *rows]}))
    forms = {"dtype": "float32", "draft_dtype": "float32", **asked}
    return LocalEngine(EngineOptions(data, device="cpu", offline=True, **forms))


def loaded(engine: LocalEngine, draft: str | None) -> Pair:
    last = list(engine.load("t", draft))[-1]
    assert isinstance(last, Loaded), last
    return last.pair


def words(engine: LocalEngine, request: ChatRequest) -> tuple[tuple[int, ...], int]:
    events = list(engine.stream(request, NeverCancel()))
    assert isinstance(events[-1], Finished), events[-1]
    return events[-1].ids, sum(e.drafted for e in events if isinstance(e, Round))


@pytest.mark.parametrize("layout", ["speculators", "eagle"])
def test_a_folder_named_as_draft_drafts_and_changes_no_word(
    layout: str, models: Path, tmp_path: Path
) -> None:
    made = engine(models, tmp_path / "data")
    pair = loaded(made, str(models / layout))
    assert pair.draft.value == str(models / layout)
    assert "does not say for which target" in pair.draft.reason
    assert "ms a token" in pair.draft_dtype.reason
    talk = [Message("user", "Which colours has the sky, and when?")]
    for turn in range(3):
        sampling = Sampling(temperature=turn / 2, max_tokens=30, seed=turn)
        ask = ChatRequest(tuple(talk), sampling, conversation="c", k=4)
        ids, drafted = words(made, ask)
        assert drafted > 20
        plain = replace(ask, mode="standard", conversation="plain", fresh=True)
        assert words(made, plain) == (ids, 0)
        talk += [Message("assistant", "x", ids=ids), Message("user", "And then?")]


def test_a_head_of_another_width_or_of_another_target_is_refused(
    models: Path, tmp_path: Path
) -> None:
    made = engine(models, tmp_path / "data")
    last = list(made.load("t", str(models / "wide")))[-1]
    assert isinstance(last, Failed)
    assert "width 48" in last.error.message


def test_a_head_that_knows_fewer_tokens_than_its_target_is_refused(
    models: Path, tmp_path: Path
) -> None:
    config = config_of("plain", drafts=64, vocab_size=200)
    write_head(tmp_path / "few", config, tensors_of(config, 5))
    last = list(engine(models, tmp_path / "data").load("t", str(tmp_path / "few")))[-1]
    assert isinstance(last, Failed)
    assert "knows 200 tokens; this target has 259" in last.error.message


def head_row(models: Path, **fields: Any) -> dict[str, Any]:
    row = {"id": "h", "name": "H", "family": "EAGLE-3", "roles": ["head"], "trained_for": "t"}
    return {**row, "folder": str(models / "speculators"), "parameters": 1000, **fields}


def test_the_registrys_head_is_chosen_for_its_target_only(models: Path, tmp_path: Path) -> None:
    pair = loaded(engine(models, tmp_path / "one", head_row(models)), None)
    assert pair.draft.value == "h"
    assert "trained for this target" in pair.draft.reason
    other = head_row(models, trained_for="another")
    pair = loaded(engine(models, tmp_path / "two", other), None)
    assert (pair.draft.value, [option.id for option in pair.drafts]) == (
        "ngram",
        ["auto", "early-exit", "ngram", "none"],
    )
    gone = head_row(models, folder=None, repo="nobody/nothing")
    pair = loaded(engine(models, tmp_path / "three", gone), None)
    (option,) = [option for option in pair.drafts if option.id == "h"]
    assert (option.verdict, option.on_disk, pair.draft.value) == ("possible", False, "ngram")
    assert "not fetched unless asked for: its size is not known" in option.reason


def test_a_target_that_hands_out_no_states_bars_heads_before_one_is_fetched(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specdec.drafting.no_states", lambda model: "it hands out no states")
    made = engine(models, tmp_path / "data", head_row(models))
    pair = loaded(made, None)
    (option,) = [option for option in pair.drafts if option.id == "h"]
    assert (option.verdict, option.reason) == ("rejected", "it hands out no states")
    assert pair.draft.value == "ngram"
    last = list(made.load("t", "h"))[-1]
    assert isinstance(last, Failed)
    assert "it hands out no states" in last.error.message


def test_a_head_runs_in_four_bits_by_default(models: Path, tmp_path: Path) -> None:
    made = engine(models, tmp_path / "data", dtype="bfloat16", draft_dtype=None)
    pair = loaded(made, str(models / "eagle"))
    assert pair.draft_dtype.value in ("int4", "int8")
    ask = ChatRequest((Message("user", "Hello?"),), Sampling(temperature=0, max_tokens=20), k=3)
    ids, drafted = words(made, ask)
    assert drafted > 10
    assert words(made, replace(ask, mode="standard", fresh=True))[0] == ids or not pair.exact


def test_a_local_head_is_no_target(models: Path) -> None:
    entry = local_entry(models / "eagle")
    assert entry.roles == ("head",)
    assert entry.shape is None


PUBLISHED = ("qwen3-4b", "qwen3-8b", "qwen3-14b", "qwen3-32b", "llama-3.1-8b-instruct",
             "llama-3.3-70b-instruct", "gpt-oss-20b", "gpt-oss-120b")  # fmt: skip


def test_the_published_heads_are_listed_with_their_repository() -> None:
    registry = load_registry()
    for name in PUBLISHED:
        heads = [e for e in registry.drafts_for(registry.get(name)) if "head" in e.roles]
        assert heads, name
        assert all(entry.repo and entry.source for entry in heads)
    for entry in registry:
        if "head" in entry.roles:
            assert entry.trained_for is not None
            assert "target" in registry.get(entry.trained_for).roles
            assert entry not in registry.targets()
