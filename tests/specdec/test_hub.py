"""The hub: a small server on localhost plays it, huggingface_hub really asks it."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from specdec.errors import SourceError
from specdec.hub import Hub
from specdec.pair import Phase
from specdec.sources import Store
from tests.specdec.store_kit import FakeHub, entry, model_folder, serve

TOKEN = "hf_secretsecretsecret"


def files_of(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in model_folder(folder).iterdir()}


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[FakeHub]:
    extra = {
        "pytorch_model.bin": b"pickle",
        "modeling_tiny.py": b"open('/tmp/marker', 'w')",
        "README.md": b"# hello",
        "original/consolidated.safetensors": b"other",
    }
    with serve(FakeHub({**files_of(tmp_path / "upstream"), **extra})) as running:
        yield running


def fetch(data: Path, hub: FakeHub, **fields: str) -> Path:
    store = Store(data, hub=Hub(hub.url))
    return store.fetch(entry(repo="org/tiny", **fields), lambda phase: None, lambda: False).folder


def test_fetches_what_is_needed_and_nothing_else(tmp_path: Path, hub: FakeHub) -> None:
    """D07, D08: pickles and code are not even downloaded."""
    folder = fetch(tmp_path / "data", hub)
    names = {file.name for file in folder.iterdir()}
    assert names == {"config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"}
    assert (folder / "model.safetensors").read_bytes() == hub.files["model.safetensors"]
    assert not (tmp_path / "data" / "downloads" / "tiny").exists()


def test_second_load_asks_nobody_and_revision_is_pinned(tmp_path: Path, hub: FakeHub) -> None:
    fetch(tmp_path / "data", hub)
    store = Store(tmp_path / "data", hub=Hub(hub.url))
    pin = store.pins.get("tiny")
    assert pin is not None
    assert pin.revision == "c0ffee"
    assert pin.sizes["model.safetensors"] == len(hub.files["model.safetensors"])
    hub.asked.clear()
    fetch(tmp_path / "data", hub)
    assert hub.asked == []


def test_damaged_copy_is_fetched_anew_at_the_pinned_revision(tmp_path: Path, hub: FakeHub) -> None:
    folder = fetch(tmp_path / "data", hub)
    (folder / "model.safetensors").write_bytes(b"cut")
    hub.asked.clear()
    seen: list[Phase] = []
    store = Store(tmp_path / "data", hub=Hub(hub.url))
    store.fetch(entry(repo="org/tiny"), seen.append, lambda: False)
    assert "model.safetensors is cut short" in seen[0].detail
    assert "anew" in seen[0].detail
    assert any("/revision/c0ffee" in path for path, _, _ in hub.asked)
    assert (folder / "model.safetensors").read_bytes() == hub.files["model.safetensors"]


def test_changed_upstream_is_refused(tmp_path: Path, hub: FakeHub) -> None:
    """D21: same name, other tokenizer."""
    folder = fetch(tmp_path / "data", hub)
    (folder / "config.json").unlink()
    hub.files["tokenizer_config.json"] = b'{"add_bos_token": true}'
    with pytest.raises(SourceError, match="its tokenizer changed"):
        fetch(tmp_path / "data", hub)


def test_cut_connection_resumes_where_it_ended(tmp_path: Path, hub: FakeHub) -> None:
    """D04."""
    hub.cut_after = 60
    with pytest.raises(SourceError):
        fetch(tmp_path / "data", hub)
    hub.cut_after = None
    hub.asked.clear()
    fetch(tmp_path / "data", hub)
    assert "bytes=60-" in [span for _, _, span in hub.asked]


def test_oversized_partial_is_removed(tmp_path: Path, hub: FakeHub) -> None:
    """D06: the rest of a longer file cannot be asked for, for ever."""
    work = tmp_path / "data" / "downloads" / "tiny" / "hub"
    work.mkdir(parents=True)
    (work / "model.safetensors.part").write_bytes(bytes(10_000))
    (work / "model-00001-of-00009.safetensors").write_bytes(b"of another revision")
    folder = fetch(tmp_path / "data", hub)
    assert (folder / "model.safetensors").read_bytes() == hub.files["model.safetensors"]
    assert not (folder / "model-00001-of-00009.safetensors").exists()


def test_partial_of_another_version_fails_its_checksum_once(tmp_path: Path, hub: FakeHub) -> None:
    work = tmp_path / "data" / "downloads" / "tiny" / "hub"
    work.mkdir(parents=True)
    (work / "model.safetensors.part").write_bytes(b"\xff" * 20)
    with pytest.raises(SourceError, match="wrong checksum"):
        fetch(tmp_path / "data", hub)
    fetch(tmp_path / "data", hub)


def test_gated_is_explained_and_the_token_stays_secret(
    tmp_path: Path, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D01."""
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.gated = True
    with pytest.raises(SourceError, match="gated") as caught:
        fetch(tmp_path / "data", hub)
    assert "https://huggingface.co/org/tiny" in caught.value.hint
    assert any(TOKEN in token for _, token, _ in hub.asked)  # it was used
    assert TOKEN not in str(caught.value)
    assert TOKEN not in repr(caught.value.__cause__)


def test_missing_repository_is_not_called_a_network_fault(tmp_path: Path, hub: FakeHub) -> None:
    hub.missing = True
    with pytest.raises(SourceError, match="not on the hub, or is private"):
        fetch(tmp_path / "data", hub)


def test_pickle_only_repository_is_refused(tmp_path: Path, hub: FakeHub) -> None:
    """D07."""
    del hub.files["model.safetensors"]
    with pytest.raises(SourceError, match=r"only pickled weights \(pytorch_model\.bin\)"):
        fetch(tmp_path / "data", hub)


def test_disk_space_is_asked_first(
    tmp_path: Path, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("usage", (), {"free": 10})
    monkeypatch.setattr("specdec.transfer.shutil.disk_usage", lambda folder: usage)
    with pytest.raises(SourceError, match="of disk, 0 kB free"):
        fetch(tmp_path / "data", hub)


def test_cancel_keeps_what_is_here(tmp_path: Path, hub: FakeHub) -> None:
    store = Store(tmp_path / "data", hub=Hub(hub.url))
    with pytest.raises(SourceError, match="cancelled"):
        store.fetch(entry(repo="org/tiny"), lambda phase: None, lambda: True)


def test_reachable_is_decided_in_seconds(hub: FakeHub) -> None:
    assert Hub(hub.url).reachable()
    assert not Hub(hub.url, offline=True).reachable()
    start = time.monotonic()
    assert not Hub("http://127.0.0.1:9").reachable()
    assert time.monotonic() - start < 3.5


def test_a_network_that_swallows_everything_is_given_up_once() -> None:
    """D02: connects, then silence; decided once per process."""
    with socket.socket() as hole:
        hole.bind(("127.0.0.1", 0))
        hole.listen(8)
        url = f"http://127.0.0.1:{hole.getsockname()[1]}"
        start = time.monotonic()
        assert not Hub(url).reachable()
        assert time.monotonic() - start < 4
        again = time.monotonic()
        assert not Hub(url).reachable()
        assert time.monotonic() - again < 0.1
