"""Evenings after the first: more chats, minutes, a file beside the chats; nothing done twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors.torch import load_file

from specdec.cli import main
from specdec.errors import LoadError
from specdec.tokenizer import load_tokenizer
from specdec.training import files, speaker, write
from specdec.training.chats import read_chats
from specdec.training.write import ChatFiles
from tests.specdec.training.kit import command, lessons_of, place_of, rows, target

pytestmark = pytest.mark.usefixtures("one_thread")


class Cut(BaseException):
    """As a kill: nothing in the program expects it."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("more")
    (base / "data").mkdir()
    target(base / "target")
    rows(base / "rows.jsonl", 12)
    return base


@pytest.fixture
def short_chats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "LENGTH", 48)
    monkeypatch.setattr(write, "BLOCK", 4)
    monkeypatch.setattr(speaker, "USER", 6)


def ids_in(shelf: Path) -> set[tuple[int, ...]]:
    found = set()
    for file in shelf.glob("*.safetensors"):
        stored = load_file(file)
        pieces = stored["ids"].split(stored["lengths"].tolist())
        found |= {tuple(piece.tolist()) for piece in pieces}
    return found


@pytest.mark.usefixtures("short_chats")
def test_chats_and_a_file_teach_together_and_more_is_added_later(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    out = tmp_path / "out"
    chats, checkpoint = ChatFiles(out / "work/chats"), out / "work/checkpoint.safetensors"
    assert main(command(folder, out, 3, "--self-generate", "6")) == 0
    first, held, seen = list(chats), ids_in(out / "work/held"), ids_in(out / "work/lessons")
    assert held < seen == {chat.ids for chat in first}  # read as they were written, all of them
    assert len(first) == 6
    before, began = lessons_of(out), place_of(checkpoint)
    more = ("--self-generate", "12", "--data", str(folder / "rows.jsonl"), "--vocab", "90")
    assert main(command(folder, out, 5, *more)) == 0
    assert list(chats)[:6] == first
    after = lessons_of(out)
    assert before.items() <= after.items()  # nothing was read twice
    exam, lessons = ids_in(out / "work/held"), ids_in(out / "work/lessons")
    assert held <= exam <= {chat.ids for chat in chats}
    taught = lessons - exam  # what is held out lies in both and is passed over here
    file = {
        chat.ids for chat in read_chats(folder / "rows.jsonl", load_tokenizer(folder / "target"))
    }
    assert lessons >= file
    assert len(exam | lessons) == 12 + len(file)
    place = place_of(checkpoint)
    assert (place.updates, place.sequences) == (5, len(taught))
    assert place.epoch > began.epoch  # the rest of the one before was of fewer sequences
    card = json.loads((out / "card.json").read_text())
    assert card["data"] == "chats the target wrote itself and rows.jsonl"
    assert (card["sequences"], card["held_out"], card["vocab"]) == (len(taught), len(exam), 90)
    assert main(command(folder, out, 5, *more)) == 0  # a third time there is nothing to do
    assert lessons_of(out) == after
    assert place_of(checkpoint).epoch == place.epoch
    assert capsys.readouterr().err.count("loading") == 2


@pytest.mark.usefixtures("short_chats")
def test_a_run_of_both_that_is_cut_at_every_write_ends(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_bytes, out, seen = files.write_bytes, tmp_path / "out", set[Path]()

    def cut_once(path: Path, data: bytes) -> None:
        """Once for each file: half of it written or, of every second one, when it is there."""
        if path not in seen:
            seen.add(path)
            if len(seen) % 2:
                write_bytes(path, data)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.with_name(f".{path.name}.part").write_bytes(data[: len(data) // 2])
            raise Cut(path.name)
        write_bytes(path, data)

    monkeypatch.setattr(files, "write_bytes", cut_once)
    both = ("--self-generate", "6", "--data", str(folder / "rows.jsonl"))
    tries = 0
    while True:
        try:
            assert main(command(folder, out, 2, *both)) == 0
            break
        except Cut:
            tries += 1
    assert tries >= 11, seen
    wrote = [chat.ids for chat in ChatFiles(out / "work/chats")]
    assert 6 <= len(wrote) == len(set(wrote))
    exam, lessons = ids_in(out / "work/held"), ids_in(out / "work/lessons")
    assert exam <= set(wrote) <= exam | lessons
    card = json.loads((out / "card.json").read_text())
    assert (card["updates"], card["sequences"]) == (2, len(lessons - exam))


@pytest.mark.usefixtures("short_chats")
def test_chats_wait_for_more_minutes(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """What keeps chats from being written is the time they took, not that they were once done."""
    out = tmp_path / "out"
    assert main(command(folder, out, 1, "--self-generate", "8")) == 0
    (out / "work/chats/done.json").write_text("{}")  # as the first version left it
    spent = {"write": 400 * 60.0, "read": 1.0, "train": 1.0}
    files.write_json(out / "work/clock.json", spent)
    assert main(command(folder, out, 2, "--self-generate", "12")) == 0
    assert "8 of 12 chats are written; more would take more --minutes" in capsys.readouterr().err
    assert main([*command(folder, out, 3, "--self-generate", "12"), "--minutes", "1100"]) == 0
    assert len(list(ChatFiles(out / "work/chats"))) == 12


def test_minutes_that_are_over_before_training_make_no_head(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    out = tmp_path / "out"
    assert main([*command(folder, out, 4), "--minutes", "0.0001"]) == 2
    assert "over before training began" in capsys.readouterr().err
    assert not (out / "model.safetensors").exists()
    assert main(command(folder, out, 1)) == 0


def test_a_chat_file_that_holds_none_is_named(tmp_path: Path) -> None:
    kept = ChatFiles(tmp_path)
    files.write_json(tmp_path / "00000.json", [{"ids": [1, 2]}])
    with pytest.raises(LoadError, match=r"00000\.json holds no chats"):
        list(kept)
