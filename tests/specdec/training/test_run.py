"""`train-draft` from end to end on a tiny target: it learns, goes on after a kill, and refuses."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from filelock import FileLock
from safetensors.torch import load_file

from specdec.cli import main
from specdec.contract import Round
from specdec.engine import LocalEngine
from specdec.heads.reader import load_head
from specdec.options import EngineOptions
from specdec.registry import load_registry, local_entry
from specdec.training import files, run, speaker, train, write
from specdec.training.chats import Chat
from specdec.training.module import DraftHead
from specdec.training.practice import Batch, Ends, Guess
from specdec.training.train import Pace
from tests.specdec.engines import ask, load, of_kind, reply
from tests.specdec.training.kit import command, lessons_of, place_of, rows, target, weights

pytestmark = pytest.mark.usefixtures("one_thread")

MODES = ("speculative", "standard")
ROOT = Path(__file__).resolve().parents[3]


class Cut(BaseException):
    """As a kill: nothing in the program expects it."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("train")
    (base / "data").mkdir()
    target(base / "target")
    rows(base / "rows.jsonl")
    return base


@pytest.fixture
def each_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save after every update, where a run would wait a minute."""
    monkeypatch.setattr(run, "Pace", functools.partial(Pace, save_every=0.0))


def head_of(out: Path) -> dict[str, torch.Tensor]:
    return load_file(out / "model.safetensors")


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name], atol=1e-3, rtol=1e-2)


@pytest.mark.usefixtures("each_update")
def test_a_run_that_fails_at_every_write_ends_as_one_that_never_did(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(command(folder, tmp_path / "whole", 4)) == 0
    write, fails = files.write_bytes, 0

    def fail_once(path: Path, data: bytes) -> None:
        if path not in seen:
            seen.add(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.with_name(f".{path.name}.part").write_bytes(data[: len(data) // 2])
            raise Cut(path.name)
        write(path, data)
        if path.name == "checkpoint.safetensors" and len(saves) < 3:
            saves.append(path)
            raise Cut("after a checkpoint")

    seen, saves = set[Path](), list[Path]()
    monkeypatch.setattr(files, "write_bytes", fail_once)
    while True:
        try:
            assert main(command(folder, tmp_path / "cut", 4)) == 0
            break
        except Cut:
            fails += 1
    assert fails >= 12, seen
    same(head_of(tmp_path / "whole"), head_of(tmp_path / "cut"))
    card = json.loads((tmp_path / "cut/card.json").read_text())
    whole = json.loads((tmp_path / "whole/card.json").read_text())
    assert (card["updates"], card["tokens_trained"]) == (4, whole["tokens_trained"])


def test_it_goes_on_after_a_kill_and_its_head_loads(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = (
        "import functools, sys; from specdec.training import run; from specdec.cli import main;"
        "run.Pace = functools.partial(run.Pace, save_every=0.0); sys.exit(main(sys.argv[1:]))"
    )
    run_ = subprocess.Popen(
        [sys.executable, "-c", script, *command(folder, out, 100_000)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    file = out / "work/checkpoint.safetensors"
    until = time.monotonic() + 120
    while not file.exists() and time.monotonic() < until and run_.poll() is None:
        time.sleep(0.05)
    time.sleep(0.3)  # somewhere in an update, or in writing the next one
    os.kill(run_.pid, signal.SIGKILL)
    run_.wait()
    assert file.exists()
    before = lessons_of(out)
    had = place_of(file)
    assert had.updates > 0
    assert main(command(folder, out, had.updates + 2)) == 0
    assert place_of(file).updates == had.updates + 2
    assert lessons_of(out) == before  # what the target said was not asked again
    held = weights(folder / "target")
    loaded = load_head(out, held, torch.float32, "dense")
    assert loaded.shape.drafts == len(loaded.ids if loaded.ids is not None else ())


def test_it_learns_what_can_be_learned(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On text that repeats itself, of a target whose next words follow from its states."""
    monkeypatch.setattr(train, "TOKENS", 256)
    assert main(command(folder, tmp_path / "a", 1)) == 0
    assert main(command(folder, tmp_path / "b", 40)) == 0
    first, last = (
        json.loads((tmp_path / name / "card.json").read_text())["history"][-1] for name in "ab"
    )
    assert last["loss"] < 0.7 * first["loss"]
    assert last["reject"][0] > 1.05 * first["reject"][0]


def test_the_target_writes_its_own_chats_and_goes_on_after_a_kill(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(write, "LENGTH", 110)
    monkeypatch.setattr(speaker, "USER", 12)
    monkeypatch.setattr(speaker, "AGAIN", 70)
    monkeypatch.setattr(write, "BLOCK", 4)
    add, out = write.ChatFiles.add, tmp_path / "own"

    def add_and_die(kept: write.ChatFiles, chats: list[Chat]) -> None:
        add(kept, chats)
        raise Cut

    monkeypatch.setattr(write.ChatFiles, "add", add_and_die)
    with pytest.raises(Cut):
        main(command(folder, out, 2, "--self-generate", "9"))
    first = list(write.ChatFiles(out / "work/chats"))
    monkeypatch.setattr(write.ChatFiles, "add", add)
    assert main(command(folder, out, 2, "--self-generate", "9")) == 0
    assert "9 of 9 chats" in capsys.readouterr().err
    chats = list(write.ChatFiles(out / "work/chats"))
    assert chats[:4] == first
    assert len({chat.ids for chat in chats}) == 9
    opening = [257, *b"user\n"]
    for chat in chats:
        assert list(chat.ids[: len(opening)]) == opening
        assert len(chat.ids) <= 110
        assert chat.replies
        for start, _ in chat.replies:  # a reply stands where the template puts it
            assert bytes(i for i in chat.ids[start - 10 : start] if i < 256) == b"assistant\n"
        assert all(0 <= i < 259 for i in chat.ids)


def test_a_registered_head_drafts_and_the_words_stay_the_target_s(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "data").mkdir()
    target(tmp_path / "target", tie_word_embeddings=True)
    rows(tmp_path / "rows.jsonl", 12)
    (tmp_path / "data/models.json").write_text('{"models": [{"id": "qwen3-4b", "name": "Mine"}]}')
    for out in ("head", "other", "head"):
        assert main(command(tmp_path, tmp_path / out, 1)) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("target-head is in ")
    registry = load_registry(tmp_path / "data")
    entry = registry.get("target-head")
    assert entry.folder == (tmp_path / "head").resolve()
    assert registry.get("target-head-2").folder == (tmp_path / "other").resolve()
    assert registry.get("qwen3-4b").name == "Mine"
    whom = local_entry(tmp_path / "target")
    assert {e.id for e in registry.drafts_for(whom)} == {"target-head", "target-head-2"}
    assert "lm_head.weight" not in head_of(tmp_path / "head")  # the target's stands for it

    engine = LocalEngine(EngineOptions(tmp_path / "data", "cpu", "float32", offline=True))
    try:
        load(engine, tmp_path / "target", "target-head")
        drafted = [reply(engine, ask("abc cab", mode=mode, k=3)) for mode in MODES]
    finally:
        engine.close()
    (rounds, spoken), (_, plain) = drafted
    assert spoken.ids == plain.ids
    assert any(event.drafted for event in of_kind(rounds, Round))


@pytest.mark.usefixtures("each_update")
def test_later_steps_are_trained_at_the_end(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, unroll = list[int](), train.unroll

    def watched(head: DraftHead, ends: Ends, batch: Batch, steps: int) -> list[Guess]:
        seen.append(steps)
        return unroll(head, ends, batch, steps)

    monkeypatch.setattr(train, "unroll", watched)
    assert main(command(folder, tmp_path / "out", 10)) == 0
    assert seen == [2] * 6 + [4] * 4


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--minutes", "0"], "--minutes is 0"),
        (["--vocab", "-3"], "--vocab is -3"),
        (["--minutes", "inf"], "--minutes is inf"),
        (["--data", "nowhere.jsonl"], "There is no file nowhere.jsonl"),
        (["--target", "nobody"], "nobody"),
    ],
)
def test_bad_input_is_one_line(
    folder: Path, tmp_path: Path, more: list[str], said: str, capsys: pytest.CaptureFixture
) -> None:
    assert main([*command(folder, tmp_path / "out", 1), *more]) == 2
    err = capsys.readouterr().err.strip()
    assert said in err
    assert err.count("\n") == 0
    assert not (tmp_path / "out").exists()


def test_a_folder_that_was_begun_for_something_else_is_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    out = tmp_path / "out"
    assert main(command(folder, out, 1)) == 0
    assert main([*command(folder, out, 1), "--seed", "7"]) == 2
    assert "was begun with another seed: 0, now 7" in capsys.readouterr().err
    rows(tmp_path / "others.jsonl", seed=9)
    assert main(command(folder, out, 1, "--data", str(tmp_path / "others.jsonl"))) == 2
    assert "was begun with another data sha256" in capsys.readouterr().err
    assert main(command(folder, out, 1, "--self-generate", "4")) == 2  # without the file
    with FileLock(out / "work/lock"):
        assert main(command(folder, out, 1)) == 2
    assert f"Another run is working in {out}" in capsys.readouterr().err
    (tmp_path / "full").mkdir()
    (tmp_path / "full/thesis.txt").write_text("precious")
    assert main(command(folder, tmp_path / "full", 1)) == 2
    assert "holds something else" in capsys.readouterr().err
