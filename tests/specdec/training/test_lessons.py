"""What the target said is kept in bounded files; text that is held out is never trained on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from specdec.errors import SettingError
from specdec.tokenizer import load_tokenizer
from specdec.training import vocab
from specdec.training.chats import Chat, read_chats, split
from specdec.training.lessons import Shelf, token_bytes, within
from specdec.training.order import epoch
from specdec.training.teacher import Teacher, taps_of
from tests.specdec.training.kit import LAYERS, rows, target, weights

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return target(tmp_path_factory.mktemp("lessons") / "target")


@pytest.fixture(scope="module")
def chats(folder: Path) -> list[Chat]:
    return read_chats(rows(folder.parent / "rows.jsonl", 30), load_tokenizer(folder))


def test_files_stay_within_their_bound_and_hold_the_target_s_law(
    folder: Path, chats: list[Chat], tmp_path: Path
) -> None:
    held = weights(folder)
    teacher = Teacher(held, 259)
    shard = 300 * token_bytes(64)
    shelf = Shelf(tmp_path, chats, 64, shard)
    asked: list[int] = []
    shelf.fill(lambda part: asked.append(len(part)) or teacher.lessons(part), lambda part: part < 2)
    assert shelf.ready == [0, 1]
    shelf.fill(lambda part: asked.append(len(part)) or teacher.lessons(part), lambda part: True)
    assert len(asked) == len(shelf.parts) > 3  # none twice
    stored = list(shelf)
    assert [tuple(s.ids.tolist()) for s in stored] == [chat.ids for chat in chats]
    for part in shelf.ready:
        assert shelf.file(part).stat().st_size <= shard + 2000  # the file's own header
    index = json.loads((tmp_path / "index.json").read_text())
    assert sum(row["tokens"] for row in index["files"]) == shelf.tokens
    for one, chat in zip(stored[:4], chats, strict=False):
        alone = teacher.lessons([chat])[0]
        torch.testing.assert_close(one.taps, alone.taps.bfloat16(), atol=2e-2, rtol=2e-2)
        logits = held.head(alone.last)[:, :259]
        torch.testing.assert_close(one.norm, logits.logsumexp(-1), atol=1e-3, rtol=1e-3)
        assert one.top.tolist() == logits.argmax(-1).tolist()
        assert one.said.sum() == sum(end - start for start, end in chat.replies)


def test_the_disk_s_limit_leaves_out_the_rest(chats: list[Chat]) -> None:
    kept = within(chats, 200)
    assert 0 < sum(len(chat.ids) for chat in kept) <= 200
    assert kept == chats[: len(kept)]


def test_text_is_on_one_side_only(chats: list[Chat]) -> None:
    train, held = split([*chats, *chats])
    assert held
    assert not {chat.ids for chat in train} & {chat.ids for chat in held}
    assert {chat.ids for chat in train} | {chat.ids for chat in held} == {c.ids for c in chats}
    assert split(reversed(chats)) == (train, held)
    with pytest.raises(SettingError, match="too little to learn from"):
        split(chats[:1])


def test_a_reply_is_found_in_its_chat(folder: Path, chats: list[Chat]) -> None:
    tokenizer = load_tokenizer(folder)
    for chat in chats:
        ((start, end),) = chat.replies
        text = tokenizer.decode(chat.ids)
        said = tokenizer.decode(chat.ids[start:end])
        assert text.endswith("<|im_start|>assistant\n" + said)
        assert said.endswith("<|im_end|>\n")


def test_long_text_is_cut_in_pieces(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(json.dumps({"text": "abcde" * 30}) + "\n\n")
    pieces = read_chats(tmp_path / "t.jsonl", load_tokenizer(folder), 64)
    assert [len(piece.ids) for piece in pieces] == [64, 64, 22]
    assert pieces[2].replies == ((0, 22),)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("{not json", "row 2: "),
        ('{"prompt": "x"}', 'row 2: it has neither "messages" nor "text"'),
        ('{"messages": [{"role": "user"}]}', r"row 2: messages\[0\] has no role and content"),
        ('["text"]', "row 2: "),
    ],
)
def test_a_bad_row_is_named(folder: Path, tmp_path: Path, row: str, said: str) -> None:
    file = tmp_path / "t.jsonl"
    file.write_text('{"text": "abc"}\n' + row + "\n")
    with pytest.raises(SettingError, match=said):
        read_chats(file, load_tokenizer(folder))


def test_the_head_s_vocabulary_is_what_occurs_most() -> None:
    texts = [[5, 5, 9, 2], [2, 5, 7]]
    assert vocab.choose(texts, 2) == (2, 5)
    assert vocab.choose(texts, 100) == (2, 5, 7, 9)
    assert vocab.covered(texts, (2, 5)) == 5 / 7
    d2t, t2d = vocab.maps((2, 5, 7), 10)
    assert (d2t + torch.arange(3)).tolist() == [2, 5, 7]
    assert t2d.nonzero()[:, 0].tolist() == [2, 5, 7]


def test_an_epoch_has_every_sequence_once_in_an_order_of_its_own() -> None:
    lengths = {0: [5, 90, 30, 41] * 30, 3: [7] * 20}
    picks = epoch(lengths, 200, 1, 0)
    seen = sorted((pick.part, place) for pick in picks for place in pick.places)
    assert seen == [(part, i) for part in lengths for i in range(len(lengths[part]))]
    assert all(max(lengths[p.part][i] for i in p.places) * len(p.places) <= 200 for p in picks)
    assert picks == epoch(lengths, 200, 1, 0)
    assert picks != epoch(lengths, 200, 1, 1)


def test_three_layers_are_tapped() -> None:
    assert taps_of(30) == (2, 15, 27)
    assert taps_of(LAYERS) == (2, 4, 5)
    assert taps_of(4) == (1, 2, 3)
    with pytest.raises(SettingError, match="three layers apart"):
        taps_of(3)
