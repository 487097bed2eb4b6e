"""The registry: what is in it, how it is overridden, and how it complains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specdec import folder
from specdec.depot import Files
from specdec.errors import RegistryError, UnknownModelError
from specdec.registry import load_registry
from specdec.sources import Store
from tests.specdec.store_kit import model_folder

ROW: dict[str, Any] = {"id": "x", "name": "X", "family": "F", "roles": ["target"]}


def write(file: Path, *rows: dict[str, Any]) -> Path:
    file.write_text(json.dumps({"models": rows}))
    return file


def test_built_in_lists_what_people_run() -> None:
    registry = load_registry()
    families = {entry.family for entry in registry}
    assert families >= {
        "Qwen3", "Qwen2.5", "Qwen2.5-Coder", "Llama 2", "Llama 3.1", "Llama 3.2", "Llama 3.3",
        "Gemma 3", "SmolLM2", "SmolLM3", "Mistral Small", "DeepSeek R1 distill", "gpt-oss",
    }  # fmt: skip
    assert {"qwen3-30b-a3b", "llama-2-70b-chat", "gpt-oss-120b"} <= {e.id for e in registry}


def test_every_known_number_names_its_source() -> None:
    for entry in load_registry():
        known = (entry.shape, entry.context, entry.licence, entry.parameters, entry.gated)
        if any(value is not None for value in known):
            assert entry.source, entry.id


def test_packaged_files_are_those_that_were_handed_to_us() -> None:
    registry = load_registry()
    packaged = {e.id: e.packaged for e in registry if e.packaged}
    assert set(packaged) == {
        "smollm2-135m-instruct", "qwen2.5-coder-0.5b-instruct", "qwen2.5-coder-1.5b-instruct",
    }  # fmt: skip  # not gemma-3-270m: a base model without a template cannot chat (C01)
    assert {name for name, pack in packaged.items() if not pack.opt_in} == {"smollm2-135m-instruct"}
    pack = packaged["qwen2.5-coder-1.5b-instruct"]
    assert len(pack.wheels) == 22
    assert pack.label == (
        "third-party mirror of Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/"
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf, sha256 checked"
    )


def test_counted_parameters_agree_with_names() -> None:
    registry = load_registry()
    for name, billions in (
        ("qwen3-8b", 8.2),
        ("llama-3.1-8b-instruct", 8.0),
        ("llama-2-7b-chat", 6.7),
    ):
        size = registry.get(name).size
        assert size is not None
        assert abs(size / 1e9 - billions) < 0.05, name


def test_moe_reads_only_its_active_experts() -> None:
    moe = load_registry().get("qwen3-30b-a3b")
    assert moe.shape is not None
    assert moe.shape.parameters is not None
    assert moe.shape.step_parameters is not None
    assert 30e9 < moe.shape.parameters < 31e9
    assert 2.5e9 < moe.shape.step_parameters < 3.5e9


def test_get_by_id_repository_and_folder(tmp_path: Path) -> None:
    registry = load_registry()
    assert registry.get("Qwen3-8B").id == "qwen3-8b"
    assert registry.get("Qwen/Qwen3-8B").id == "qwen3-8b"
    local = registry.get(str(model_folder(tmp_path / "mine")))
    assert local.folder == tmp_path / "mine"
    assert local.context == 64
    assert local.shape is not None
    assert local.shape.head_dim == 2


def test_unknown_id_names_the_nearest() -> None:
    with pytest.raises(UnknownModelError) as caught:
        load_registry().get("smollm2-135m-instuct")
    assert "smollm2-135m-instruct" in caught.value.hint


def test_folder_without_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match=r"config\.json"):
        load_registry().get(str(tmp_path))


def test_drafts_share_tokens_and_are_smaller() -> None:
    registry = load_registry()
    drafts = registry.drafts_for(registry.get("qwen2.5-coder-1.5b-instruct"))
    ids = {draft.id for draft in drafts}
    assert "qwen2.5-coder-0.5b-instruct" in ids
    assert "qwen2.5-coder-3b-instruct" not in ids
    assert "smollm2-135m-instruct" not in ids
    smallest = registry.drafts_for(registry.get("smollm2-135m-instruct"))
    assert [draft.id for draft in smallest] == ["smollm2-135m-instruct-head"]


def test_the_head_that_ships_is_whole_small_and_as_its_card_says() -> None:
    (entry,) = [entry for entry in load_registry() if entry.shipped]
    assert entry.folder is not None
    weights = entry.folder / "model.safetensors"
    assert folder.problem(entry.folder) is None
    assert entry.bytes == weights.stat().st_size <= 12_000_000
    card = json.loads((entry.folder / "card.json").read_text())
    assert card["target"] == entry.trained_for == "smollm2-135m-instruct"
    assert len(card["acceptance"]["greedy"]) == 4
    assert card["command"].startswith("python -m specdec train-draft")
    config = json.loads((entry.folder / "config.json").read_text())
    assert config["draft_vocab_size"] == card["vocab"]
    label = Store(Path("nowhere")).source(entry)
    assert label == "comes with this program"
    told = Files(entry, entry.folder, label).told  # a notice stands beside those of other models
    assert told == "smollm2-135m-instruct-head: comes with this program"
    assert Files(entry, entry.folder, "").told == ""


def test_user_file_adds_and_overrides_named_fields(tmp_path: Path) -> None:
    write(tmp_path / "models.json", ROW, {"id": "qwen3-8b", "licence": "mine"})
    registry = load_registry(tmp_path)
    assert registry.get("x").name == "X"
    assert registry.get("qwen3-8b").licence == "mine"
    assert registry.get("qwen3-8b").repo == "Qwen/Qwen3-8B"


def test_a_folder_is_looked_for_beside_the_file_that_names_it(tmp_path: Path) -> None:
    away = {**ROW, "id": "y", "folder": str(tmp_path / "elsewhere/its")}
    registry = load_registry(write(tmp_path / "models.json", {**ROW, "folder": "its"}, away))
    assert registry.get("x").folder == tmp_path / "its"
    assert registry.get("y").folder == tmp_path / "elsewhere/its"
    assert not registry.get("x").shipped
    assert registry.get(
        "smollm2-135m-instruct-head"
    ).shipped  # named by the file that comes with us


def test_no_user_file_is_fine(tmp_path: Path) -> None:
    assert len(load_registry(tmp_path)) == len(load_registry())


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"bytes": -1}, "bytes"),
        ({"roles": ["judge"]}, "roles.0"),
        ({"colour": "red"}, "colour"),
        ({"shape": {"layers": "many"}}, "shape.layers"),
        ({"packaged": {"hub": {"repo": "r", "revision": "v", "file": "f"}}}, "packaged.bytes"),
    ],
)
def test_invalid_field_is_named_in_one_line(
    tmp_path: Path, change: dict[str, Any], field: str
) -> None:
    file = write(tmp_path / "models.json", {**ROW, **change})
    with pytest.raises(RegistryError) as caught:
        load_registry(file)
    assert f"field {field}:" in caught.value.message
    assert "'x'" in caught.value.message
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["{", "[]", '{"models": 3}', '{"models": [{"name": "no id"}]}'])
def test_broken_file_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "models.json"
    file.write_text(text)
    with pytest.raises(RegistryError, match=r"models\.json"):
        load_registry(file)
