"""What a pair says of quantised weights, what it counts for them, and that it never says exact."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from app.pair_sheet import sheet
from specdec import forms, memory, quantised
from specdec.contract import Failed, Finished, Loaded, Status
from specdec.depot import Files
from specdec.device import choose
from specdec.engine import LocalEngine
from specdec.options import EngineOptions
from specdec.registry import local_entry
from tests.specdec.engines import Folders, ask, load, make_folders, reply
from tests.specdec.gptq_kit import quantise, write_config
from tests.specdec.test_quantised import lacking, needs
from tests.tiny import tiny_model

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return make_folders(tmp_path)


@pytest.fixture
def engine(folders: Folders, request: pytest.FixtureRequest) -> Iterator[LocalEngine]:
    weights = getattr(request, "param", None)
    made = LocalEngine(EngineOptions(folders.data, device="cpu", offline=True, weights=weights))
    yield made
    made.close()


def counted(folder: Path, weights: str | None = None, dtype: str = "bf16") -> memory.Form:
    files = Files(local_entry(folder), folder, "")
    return forms.target_form(files, replace(choose("cpu", dtype), form="dense"), weights)


@needs(quantised.INT8)
@pytest.mark.parametrize("engine", ["int8"], indirect=True)
def test_an_int8_target_speculates_and_claims_no_more_than_the_law(
    engine: LocalEngine, folders: Folders
) -> None:
    pair = load(engine, folders.target, folders.target).pair  # as its own draft, in 4 bits
    assert pair.exact is False
    assert pair.dtype.value == "int8"
    assert "optimum-quanto" in pair.dtype.reason
    assert "near-ties" in pair.runner.reason
    assert any("8 bits" in notice for notice in pair.notices)
    assert "optimum-quanto" not in pair.draft_dtype.reason
    page = sheet(Status("ready", pair), None, None)
    assert "same words as plain decoding" not in page
    assert "<b>int8</b>" in page
    _, last = reply(engine, ask("hello", k=3, temperature=0.0))
    assert last.metrics.accepted > 0
    _, plain = reply(engine, ask("hello", mode="standard", temperature=0.0))
    assert len(plain.ids) == len(last.ids) == 40


@needs(quantised.GPTQ)
def test_gptq_serves_as_target_and_as_draft(engine: LocalEngine, folders: Folders) -> None:
    quantise(folders.target)
    quantise(folders.draft)
    pair = load(engine, folders.target, folders.draft).pair
    assert pair.exact is False
    assert (pair.dtype.value, pair.draft_dtype.value) == ("gptq", "gptq")
    assert "as published" in pair.dtype.reason
    _, last = reply(engine, ask("hello", k=3))
    assert isinstance(last, Finished)
    assert last.metrics.drafted > 0


@pytest.mark.parametrize("engine", ["int8"], indirect=True)
def test_without_quanto_nothing_is_fetched_or_read(
    engine: LocalEngine, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking(monkeypatch, "optimum-quanto")
    events = list(engine.load(str(folders.target), "none"))
    assert len(events) == 1
    assert isinstance(events[0], Failed)
    assert "specdec-chat[int8]" in events[0].error.hint


def test_a_gptq_draft_that_cannot_run_gives_way_unless_it_was_asked_for(
    engine: LocalEngine, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    quantise(folders.draft)
    lacking(monkeypatch, "gptqmodel")
    last = list(engine.load(str(folders.target), str(folders.draft)))[-1]
    assert isinstance(last, Failed)
    assert "gptqmodel" in last.error.message
    assert isinstance(list(engine.load(str(folders.target), None))[-1], Loaded)


def test_which_form_is_counted(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path)
    assert counted(folder) == "bf16"
    assert counted(folder, "int8") == "quanto"
    write_config(folder, {"quant_method": "gptq", "bits": 4})
    assert counted(folder) == "files"
    write_config(folder, {"quant_method": "fp8"})
    assert counted(folder) == "bf16"  # transformers unpacks it away from CUDA


@needs(quantised.INT8)
@pytest.mark.parametrize("tied", [True, False])
def test_the_estimate_of_int8_is_what_is_held(tmp_path: Path, tied: bool) -> None:
    """All but the norms, and a scale for each row."""
    from specdec.loading import load_model

    folder = tiny_model(tmp_path, tie_word_embeddings=tied, intermediate_size=512)
    model = load_model(folder, torch.device("cpu"), torch.bfloat16, weights="int8")
    want = memory.weight_bytes(local_entry(folder), "quanto")
    assert want is not None
    assert want <= model.weight_bytes <= 1.05 * want


def test_a_quantised_file_is_counted_as_long_as_it_is(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path)
    quantise(folder)
    size = (folder / "model.safetensors").stat().st_size
    entry = local_entry(folder)
    assert memory.weight_bytes(entry, "files") == memory.step_bytes(entry, "files") == size
    files, where = Files(entry, folder, ""), choose("cpu", "bf16")
    bare = memory.need_bytes(entry, "files", 64)
    assert forms.need_bytes(files, where, 64) == (bare or 0) + size
