"""A draft of another tokenizer from files to words: asked for, listed, never chosen unasked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from specdec.contract import Failed, Loaded, Round
from specdec.engine import LocalEngine
from specdec.options import EngineOptions
from tests.specdec.engines import ask, load, of_kind, reply
from tests.specdec.tongue_kit import CODE, ENGLISH, MARKERS, other_model, write_other
from tests.tiny import tiny_model

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target with words of code, and a draft with words of English."""
    base = tmp_path_factory.mktemp("translated")
    sizes = {"vocab_size": 448, "num_hidden_layers": 4, "eos_token_id": 2, "bos_token_id": 1}
    target = tiny_model(base / "target", seed=1, **sizes)
    write_other(target, CODE + ENGLISH, 420, ("<|over|>", "<|im_start|>", "<|im_end|>"))
    other_model(base / "other", num_hidden_layers=1, intermediate_size=32)
    return base


def engine(data: Path, **rest: object) -> LocalEngine:
    data.mkdir(exist_ok=True)
    options = EngineOptions(data, "cpu", "float32", "float32", offline=True)
    return LocalEngine(replace(options, **rest))  # type: ignore[arg-type]


def test_words_are_the_plain_ones_on_real_files(models: Path, tmp_path: Path) -> None:
    made = engine(tmp_path / "data")
    pair = load(made, models / "target", models / "other").pair
    assert pair.draft.value == str(models / "other")
    assert "another tokenizer: " in pair.draft.reason
    assert "% of its tokens are the target's too" in pair.draft.reason
    assert len(list((tmp_path / "data" / "tables").glob("*.table"))) == 1
    drafted = 0
    for temperature in (0, 0.8):
        request = ask(ENGLISH + CODE, temperature=temperature, max_tokens=24, runner="static")
        _, plain = reply(made, replace(request, mode="standard", fresh=True))
        for k, fresh in ((1, True), (7, False), (None, True)):
            _, last = reply(made, replace(request, k=k, fresh=fresh))
            assert last.ids == plain.ids
            drafted += last.metrics.drafted
        _, sampled = reply(made, replace(request, k=3, rule="reject"))
        assert sampled.ids
    assert drafted > 20
    made.close()


def test_it_goes_on_in_the_next_turn_and_after_plain_ones(models: Path, tmp_path: Path) -> None:
    made = engine(tmp_path / "data")
    load(made, models / "target", models / "other")
    said = []
    for mode in ("speculative", "standard", "speculative"):
        request = ask(ENGLISH, max_tokens=30, runner="static", k=4, conversation="one")
        events, last = reply(made, replace(request, mode=mode))  # type: ignore[arg-type]
        said.append(last.ids)
        names = {event.source for event in of_kind(events, Round)} - {"", "ngram"}
        assert names == ({str(models / "other")} if mode == "speculative" else set())
    assert said[0] == said[1] == said[2]
    made.close()


def registry(models: Path, data: Path, tokens: str) -> None:
    data.mkdir()
    rows = [
        {"id": "target", "roles": ["target"], "tokens": "a", "parameters": 10**6},
        {"id": "other", "roles": ["draft"], "tokens": tokens, "parameters": 10**5},
    ]
    for row in rows:
        row |= {"name": row["id"], "family": "Tiny", "folder": str(models / str(row["id"]))}
    (data / "models.json").write_text(json.dumps({"models": rows}))


@pytest.mark.parametrize("tokens", ["a", "b"])
def test_it_is_listed_and_not_chosen_unasked(models: Path, tmp_path: Path, tokens: str) -> None:
    registry(models, tmp_path / "data", tokens)
    last = list(engine(tmp_path / "data", draft_dtype="int4").load("target"))[-1]
    assert isinstance(last, Loaded), last
    assert last.pair.draft.value == "ngram"
    other = next(option for option in last.pair.drafts if option.id == "other")
    assert (other.verdict, other.usable, other.translated) == ("possible", True, True)
    assert "another tokenizer" in other.reason


def test_one_that_writes_a_space_before_each_text_is_refused(models: Path, tmp_path: Path) -> None:
    other = other_model(tmp_path / "other", num_hidden_layers=1)
    file = other / "tokenizer.json"
    data = json.loads(file.read_text())
    data["pre_tokenizer"]["add_prefix_space"] = True
    file.write_text(json.dumps(data))
    last = list(engine(tmp_path / "data").load(str(models / "target"), str(other)))[-1]
    assert isinstance(last, Failed)
    assert last.error.kind == "PairError"
    assert "does not read 'a'" in last.error.message


def test_one_that_shares_no_end_never_drafts_one(models: Path, tmp_path: Path) -> None:
    other = other_model(tmp_path / "other", num_hidden_layers=1)
    (other / "generation_config.json").write_text(json.dumps({"eos_token_id": [3]}))
    settings = json.loads((other / "tokenizer_config.json").read_text())
    (other / "tokenizer_config.json").write_text(json.dumps({**settings, "eos_token": MARKERS[3]}))
    made = engine(tmp_path / "data")
    load(made, models / "target", other)
    _, last = reply(made, ask(ENGLISH, k=4, max_tokens=20))
    assert last.ids
    made.close()
