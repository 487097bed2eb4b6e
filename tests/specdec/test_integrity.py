"""Files are read again: what is broken is named, and it alone is fetched anew."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from specdec.errors import SourceError
from specdec.hub import Hub
from specdec.integrity import check_files, drop_broken
from specdec.pair import Phase
from specdec.registry import Entry
from specdec.sources import Store
from tests.specdec.store_kit import FakeHub, entry, model_folder, safetensors, serve

TINY = entry(repo="org/tiny")
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def quiet(phase: Phase) -> None:
    """Nobody watches."""


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[FakeHub]:
    files = {f.name: f.read_bytes() for f in model_folder(tmp_path / "upstream").iterdir()}
    del files["model.safetensors"]
    with serve(FakeHub({**files, SHARDS[0]: safetensors(100), SHARDS[1]: safetensors(200)})) as it:
        yield it


@pytest.fixture
def store(tmp_path: Path, hub: FakeHub) -> Store:
    made = Store(tmp_path / "data", hub=Hub(hub.url))
    made.fetch(TINY, quiet, lambda: False)
    return made


def check(store: Store, entry: Entry = TINY):  # type: ignore[no-untyped-def]
    return check_files(store, entry, quiet, lambda: False)


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(bytes(data))


def test_whole_files_are_called_whole_and_every_one_is_read(store: Store, hub: FakeHub) -> None:
    hub.asked.clear()
    seen: list[Phase] = []
    found = check_files(store, TINY, seen.append, lambda: False)
    assert found.broken == ()
    assert found.compared == len(hub.files)
    assert found.basis == "the sums taken when they were fetched"
    assert seen[-1].name == "checking"
    assert seen[-1].done == found.bytes
    assert hub.asked == []  # no other host is needed for it


def test_one_flipped_bit_is_named_and_only_that_file_is_fetched_anew(
    store: Store, hub: FakeHub
) -> None:
    folder = store.folder(TINY)
    flip(folder / SHARDS[1])
    assert store.locate(TINY) is not None  # headers alone do not see it
    found = check(store)
    assert [one.name for one in found.broken] == [SHARDS[1]]
    assert found.mendable
    drop_broken(store, TINY, found)
    hub.asked.clear()
    store.fetch(TINY, quiet, lambda: False)
    asked = {path.rsplit("/", 1)[1] for path, _, _ in hub.asked if "resolve" in path}
    assert SHARDS[1] in asked
    assert SHARDS[0] not in asked
    assert check(store).broken == ()


def test_a_missing_and_a_changed_small_file_are_broken_too(store: Store) -> None:
    (store.folder(TINY) / "config.json").unlink()
    flip(store.folder(TINY) / "tokenizer.json")
    broken = {one.name: one.why for one in check(store).broken}
    assert broken["config.json"] == "it is missing"
    assert "not those" in broken["tokenizer.json"]


def test_where_no_sums_were_taken_that_is_said_and_they_are_taken_now(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", offline=True)
    model_folder(store.folder(TINY))
    store.fetch(TINY, quiet, lambda: False)  # found on this machine
    first = check(store)
    assert first.compared == 0
    assert first.basis.startswith("nothing: no sums were taken")
    assert check(store).compared == 4
    flip(store.folder(TINY) / "model.safetensors")
    assert [one.name for one in check(store).broken] == ["model.safetensors"]


def test_the_hubs_own_cache_is_checked_by_the_names_of_its_files_and_never_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = model_folder(tmp_path / "source")
    cache = tmp_path / "cache" / "models--org--tiny"
    (cache / "blobs").mkdir(parents=True)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("c0ffee")
    shot = cache / "snapshots" / "c0ffee"
    shot.mkdir(parents=True)
    for file in source.iterdir():
        data = file.read_bytes()
        large = file.suffix == ".safetensors"
        git = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        blob = cache / "blobs" / (hashlib.sha256(data).hexdigest() if large else git)
        blob.write_bytes(data)
        (shot / file.name).symlink_to(blob)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    store = Store(tmp_path / "data", offline=True)
    assert store.locate(TINY) == shot
    found = check(store)
    assert (found.broken, found.compared) == ((), 4)
    flip((shot / "config.json").resolve())
    found = check(store)
    assert [one.name for one in found.broken] == ["config.json"]
    with pytest.raises(SourceError, match="lies outside this program's folder"):
        drop_broken(store, TINY, found)
