"""The store: what is here, what is whole, what was pinned, and what happens without a network."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from filelock import FileLock

from specdec import folder as files
from specdec.errors import LoadError, SourceError
from specdec.hub import Hub
from specdec.pair import Phase
from specdec.pins import Pin, Pins
from specdec.sources import Store
from tests.specdec.store_kit import entry, model_folder, safetensors

DEAD = "http://127.0.0.1:9"  # nothing listens there


def silent(phase: Phase) -> None:
    """No one watches."""


def never() -> bool:
    return False


# --- folders --------------------------------------------------------------------------------


def test_whole_folder(tmp_path: Path) -> None:
    assert files.problem(model_folder(tmp_path)) is None


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_missing_file_is_named(tmp_path: Path, name: str) -> None:
    (model_folder(tmp_path) / name).unlink()
    with pytest.raises(LoadError) as caught:
        files.check(tmp_path)
    assert name.removeprefix("model.") in caught.value.message


@pytest.mark.parametrize("keep", [-1, 100, 5, 0])
def test_truncated_weights_are_named(tmp_path: Path, keep: int) -> None:
    """D05: found from the header, without torch."""
    shard = model_folder(tmp_path) / "model.safetensors"
    shard.write_bytes(shard.read_bytes()[:keep])
    problem = files.problem(tmp_path)
    assert problem is not None
    assert str(shard) in problem
    assert "cut short" in problem


def test_garbage_and_half_a_tokenizer(tmp_path: Path) -> None:
    model_folder(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"model": {"vocab"')
    assert "tokenizer.json is cut short" in (files.problem(tmp_path) or "")
    model_folder(tmp_path)
    (tmp_path / "model.safetensors").write_bytes((3).to_bytes(8, "little") + b"abc" + bytes(9))
    assert "not a safetensors file" in (files.problem(tmp_path) or "")


def test_every_shard_of_the_index_counts(tmp_path: Path) -> None:
    model_folder(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "model-1.safetensors")
    index = {"weight_map": {"w": "model-1.safetensors", "v": "model-2.safetensors"}}
    (tmp_path / files.INDEX).write_text(json.dumps(index))
    assert "model-2.safetensors is missing" in (files.problem(tmp_path) or "")
    (tmp_path / "model-2.safetensors").write_bytes(safetensors()[:-4])
    assert "model-2.safetensors is cut short" in (files.problem(tmp_path) or "")
    (tmp_path / "model-2.safetensors").write_bytes(safetensors())
    assert files.problem(tmp_path) is None


def test_pickles_are_refused_with_the_reason(tmp_path: Path) -> None:
    """D07."""
    model_folder(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    assert "pickled weights (pytorch_model.bin)" in (files.problem(tmp_path) or "")


# --- offline --------------------------------------------------------------------------------


def test_offline_loads_from_cache_and_asks_nobody(tmp_path: Path) -> None:
    """D02: the endpoint would refuse, and `offline` must not even try."""
    store = Store(tmp_path, offline=True, hub=Hub(DEAD, offline=True))
    model = entry(repo="org/tiny")
    model_folder(store.folder(model))
    assert store.locate(model) == store.folder(model)
    assert store.fetch(model, silent, never).folder == store.folder(model)


def test_offline_without_files_says_so(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="not on this machine") as caught:
        Store(tmp_path, offline=True).fetch(entry(repo="org/tiny"), silent, never)
    assert "--offline" in caught.value.hint


def test_offline_with_a_cut_file_names_it(tmp_path: Path) -> None:
    store = Store(tmp_path, offline=True)
    model = entry(repo="org/tiny")
    shard = model_folder(store.folder(model)) / "model.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1])
    assert store.locate(model) is None
    with pytest.raises(SourceError, match=r"model\.safetensors is cut short") as caught:
        store.fetch(model, silent, never)
    assert "anew" in caught.value.hint


def test_no_hub_and_no_package_is_one_clear_error(tmp_path: Path) -> None:
    store = Store(tmp_path, hub=Hub(DEAD))
    with pytest.raises(SourceError, match="does not answer"):
        store.fetch(entry(repo="org/tiny"), silent, never)


def test_local_folder_is_used_as_it_is(tmp_path: Path) -> None:
    model = entry(folder=model_folder(tmp_path / "mine"))
    store = Store(tmp_path / "data")
    assert store.fetch(model, silent, never).folder == tmp_path / "mine"
    assert store.source(model) == "local folder"
    store.remove(model)
    assert (tmp_path / "mine" / "config.json").exists()
    (tmp_path / "mine" / "model.safetensors").unlink()
    with pytest.raises(LoadError, match="safetensors"):
        store.fetch(model, silent, never)


def test_another_window_fetching_is_waited_for_and_can_be_cancelled(tmp_path: Path) -> None:
    store = Store(tmp_path, offline=True)
    model_folder(store.folder(entry()))
    (tmp_path / "downloads").mkdir()
    seen: list[str] = []
    stop = threading.Event()

    def show(phase: Phase) -> None:
        seen.append(phase.detail)
        stop.set()

    with (
        FileLock(tmp_path / "downloads" / "tiny.lock"),
        pytest.raises(SourceError, match="cancelled"),
    ):
        store.fetch(entry(), show, stop.is_set)
    assert "waiting" in seen[0]


def test_an_id_cannot_leave_the_data_folder(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.folder(entry("../../etc/passwd")).parent == tmp_path / "models"


# --- pins -----------------------------------------------------------------------------------


def test_first_contact_pins_and_later_change_is_refused(tmp_path: Path) -> None:
    """D21: the tokenizer of a name changed upstream."""
    store = Store(tmp_path, offline=True)
    model = entry()
    folder = model_folder(store.folder(model))
    store.fetch(model, silent, never)
    assert store.pins.get("tiny") is not None
    store.fetch(model, silent, never)
    settings = folder / "tokenizer_config.json"
    settings.write_text(settings.read_text().replace("<start>", "<start><start>"))
    with pytest.raises(SourceError, match="its tokenizer changed"):
        store.fetch(model, silent, never)


def test_pins_name_what_changed(tmp_path: Path) -> None:
    pins = Pins(tmp_path / "pins.json")
    folder = model_folder(tmp_path / "m")
    pins.settle("tiny", folder, Pin("hub", "hub: org/tiny", "one"))
    pins.settle("tiny", folder, Pin("hub", "hub: org/tiny", "one"))
    with pytest.raises(SourceError, match="revision"):
        pins.settle("tiny", folder, Pin("hub", "hub: org/tiny", "two"))
    (folder / "model.safetensors").write_bytes(safetensors(17))
    with pytest.raises(SourceError, match=r"size of model\.safetensors"):
        pins.settle("tiny", folder, Pin("hub", "hub: org/tiny", "one"))
    pins.forget("tiny")
    pins.settle("tiny", folder, Pin("hub", "hub: org/tiny", "two"))


def test_broken_pins_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "pins.json").write_text("{")
    with pytest.raises(SourceError, match=r"pins\.json"):
        Store(tmp_path, offline=True).pins.get("tiny")


# --- imports --------------------------------------------------------------------------------


def test_torch_is_never_imported() -> None:
    code = (
        "import sys, specdec.sources, specdec.pairing, specdec.registry, specdec.memory\n"
        "from specdec.sources import Store\n"
        "from pathlib import Path\n"
        "from specdec.pairing import model_rows\n"
        "from specdec.registry import load_registry\n"
        "rows = model_rows(load_registry(), Store(Path(sys.argv[1]), offline=True), 10**10)\n"
        "assert rows\n"
        "print([m for m in ('torch', 'transformers', 'gradio') if m in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, "/nonexistent"], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"
