"""Which ids stand for the same bytes, and the table that is kept of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specdec import token_table
from specdec.errors import LoadError
from specdec.spelling import Spelling, bytes_of, read_spelling, text_of
from specdec.token_table import build, end_pairs, open_table
from tests.specdec.tongue_kit import CODE, write_other
from tests.tiny import write_tokenizer


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A target of bytes, a draft of words."""
    write_tokenizer(tmp_path / "target")
    return tmp_path / "target", write_other(tmp_path / "draft")


def pieces(folder: Path, vocab: dict[str, int], **rest: Any) -> Path:
    """A tokenizer.json as SentencePiece models have it."""
    folder.mkdir()
    steps = [{"type": "Replace"}, {"type": "ByteFallback"}, {"type": "Fuse"}]
    data = {"model": {"vocab": vocab}, "decoder": {"type": "Sequence", "decoders": steps}, **rest}
    (folder / "tokenizer.json").write_text(json.dumps(data))
    return folder


def test_words_are_paired_by_their_bytes_one_to_one(tmp_path: Path) -> None:
    one = write_other(tmp_path / "one", CODE, 400)
    two = write_other(tmp_path / "two", CODE[40:] * 2, 380, ("<|a|>", "<|im_start|>", "<|fin|>"))
    target, draft = read_spelling(one), read_spelling(two)
    table = build(target, draft)
    assert all(draft.words[a] == target.words[b] for a, b in table.words)
    assert len({a for a, _ in table.words}) == len({b for _, b in table.words}) == len(table.words)
    both = set(target.words.values()) & set(draft.words.values())
    assert {draft.words[a] for a, _ in table.words} == both
    assert table.share == len(both) / len(draft.words)
    assert 0.7 < table.share < 1
    assert {draft.markers[a] for a, _ in table.markers} == {"<|im_start|>", "<|fin|>"}
    assert not {a for a, _ in table.words} & set(draft.markers)


def test_spellings_of_both_kinds_meet(tmp_path: Path) -> None:
    write_tokenizer(tmp_path / "bytes")
    vocab = {"<s>": 0, "<0x61>": 1, "<0xC3>": 2, "a": 3, "\u2581": 4, "\u2581the": 5, "\n": 6}
    added = [
        {"id": 0, "content": "<s>", "special": True},
        {"id": 7, "content": "b ", "special": False},
    ]
    draft = read_spelling(pieces(tmp_path / "pieces", vocab, added_tokens=added))
    assert draft.words[5] == b" the"
    assert draft.words[7] == b"b "
    assert draft.markers == {0: "<s>"}
    pairs = dict(build(read_spelling(tmp_path / "bytes"), draft).words)
    assert pairs == {2: 0xC3, 3: ord("a"), 4: ord(" "), 6: ord("\n")}  # a word before a lone byte


def test_letters_and_bytes_are_each_others() -> None:
    every = bytes(range(256))
    assert bytes_of("bytes", text_of("bytes", every)) == every
    assert bytes_of("bytes", "\u4e2d") is None
    assert bytes_of("pieces", text_of("pieces", b"\xe4")) == b"\xe4"
    assert bytes_of("pieces", "\u2581caf\u00e9") == " caf\u00e9".encode()


def test_an_unknown_spelling_is_said(tmp_path: Path) -> None:
    for name, data in (("a", {"model": {"vocab": {"x": 0}}}), ("b", {}), ("c", [])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tokenizer.json").write_text(json.dumps(data))
        with pytest.raises(LoadError, match=r"tokenizer\.json"):
            read_spelling(tmp_path / name)


def test_ends_that_mean_the_same(folders: tuple[Path, Path]) -> None:
    target, draft = map(read_spelling, folders)
    table = build(target, draft)
    ours, theirs = frozenset({256, 258}), frozenset({0, 2})
    assert table.markers == ((1, 257),)  # no end has the same text
    assert end_pairs(table, theirs, ours, (2, 258)) == ((2, 258),)
    assert end_pairs(table, theirs, ours, (None, 258)) == ()
    assert end_pairs(table, theirs, frozenset({256}), (2, 258)) == ()
    same = build(Spelling("bytes", {}, {7: "<e>", 8: "<x>"}), Spelling("bytes", {}, {1: "<e>"}))
    assert end_pairs(same, frozenset({1}), frozenset({7, 8}), (1, 8)) == ((1, 7),)
    assert end_pairs(same, frozenset({1, 2}), frozenset({7, 8}), (2, 8)) == ((1, 7), (2, 8))


def test_a_table_is_built_once(
    folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = open_table(*folders, tmp_path)
    assert len(first.words) == 256
    monkeypatch.setattr(token_table, "read_spelling", lambda folder: pytest.fail("read again"))
    assert open_table(*folders, tmp_path) == first
    assert [path.suffix for path in (tmp_path / "tables").iterdir()] == [".table"]


@pytest.mark.parametrize("harm", ["cut", "flip", "version", "renamed", "empty"])
def test_a_damaged_table_is_built_anew(
    folders: tuple[Path, Path], tmp_path: Path, harm: str
) -> None:
    first = open_table(*folders, tmp_path)
    (file,) = (tmp_path / "tables").iterdir()
    data = bytearray(file.read_bytes())
    if harm == "cut":
        del data[-5:]
    elif harm == "flip":
        data[-20] ^= 1
    elif harm == "version":
        data = bytearray(bytes(data).replace(b"specdec tokens 1", b"specdec tokens 0"))
    elif harm == "renamed":
        data = bytearray(bytes(data).replace(file.stem.encode(), b"x" * len(file.stem)))
    else:
        data.clear()
    file.write_bytes(data)
    assert open_table(*folders, tmp_path) == first
    assert open_table(*folders, tmp_path) == first
    assert len(list((tmp_path / "tables").iterdir())) == 1


def test_another_tokenizer_has_another_table_and_their_number_is_bounded(
    folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_table, "MOST_FILES", 3)
    first = open_table(*folders, tmp_path)
    for size in (330, 331, 332, 333):
        write_other(folders[1], size=size)
        assert open_table(*folders, tmp_path).of == first.of - 340 + size
    assert len(list((tmp_path / "tables").glob("*"))) == 3


def test_a_folder_that_cannot_be_written_costs_the_table_only(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "tables").write_text("in the way")
    assert len(open_table(*folders, tmp_path).words) == 256
