"""A fetch that meets what networks and disks do: a small real server, real bytes, real cuts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from specdec.errors import BrokenConnectionError, SourceError
from specdec.hub import Hub
from specdec.pair import Phase
from specdec.persistent import discard, fetch_model
from specdec.sources import Store
from tests.specdec.store_kit import FakeHub, entry, model_folder, safetensors, serve

TINY = entry(repo="org/tiny")


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[FakeHub]:
    files = {f.name: f.read_bytes() for f in model_folder(tmp_path / "upstream").iterdir()}
    with serve(FakeHub({**files, "model.safetensors": safetensors(50_000)})) as running:
        yield running


def store(tmp_path: Path, hub: FakeHub) -> Store:
    return Store(tmp_path / "data", hub=Hub(hub.url))


def test_a_connection_that_breaks_again_and_again_still_brings_the_model(
    tmp_path: Path, hub: FakeHub
) -> None:
    hub.cut_after, hub.cuts = 70_000, 2
    seen: list[Phase] = []
    got = fetch_model(store(tmp_path, hub), TINY, seen.append, lambda: False, waits=(0.01,))
    assert (got.folder / "model.safetensors").read_bytes() == hub.files["model.safetensors"]
    said = [phase.detail for phase in seen if "trying again" in phase.detail]
    assert len(said) == 2  # bytes came in between, so the one try it has was begun anew
    assert "The hub did not deliver org/tiny" in said[0]
    assert {"bytes=70000-", "bytes=140000-"} <= {span for _, _, span in hub.asked}


def test_one_that_brings_nothing_is_given_up_and_what_came_stays(
    tmp_path: Path, hub: FakeHub
) -> None:
    hub.cut_after = 0
    with pytest.raises(BrokenConnectionError, match="did not deliver"):
        fetch_model(store(tmp_path, hub), TINY, lambda p: None, lambda: False, waits=(0.01, 0.01))
    assert len([path for path, _, _ in hub.asked if path.startswith("/api/models/")]) == 3


def test_what_no_second_try_can_change_is_not_tried_again(tmp_path: Path, hub: FakeHub) -> None:
    hub.gated = True
    with pytest.raises(SourceError, match="is gated"):
        fetch_model(store(tmp_path, hub), TINY, lambda p: None, lambda: False, waits=(60.0,))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
def test_a_disk_that_fills_in_the_middle_is_said_in_plain_words(
    tmp_path: Path, hub: FakeHub
) -> None:
    where = store(tmp_path, hub)
    work = where.downloads(TINY) / "hub"
    work.mkdir(parents=True)
    (work / "model.safetensors.part").symlink_to("/dev/full")
    with pytest.raises(SourceError, match="The disk is full: org/tiny did not fit") as caught:
        fetch_model(where, TINY, lambda p: None, lambda: False, waits=(60.0,))
    assert not isinstance(caught.value, BrokenConnectionError)
    assert "what is here is kept" in caught.value.hint


def test_discard_deletes_what_an_unfinished_fetch_left(tmp_path: Path, hub: FakeHub) -> None:
    where = store(tmp_path, hub)
    hub.cut_after = 70_000
    with pytest.raises(BrokenConnectionError):
        fetch_model(where, TINY, lambda p: None, lambda: False, waits=())
    assert any(where.downloads(TINY).rglob("*.part"))
    discard(where, TINY)
    assert not where.downloads(TINY).exists()
