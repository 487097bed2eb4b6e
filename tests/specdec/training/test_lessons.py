"""What the target said is kept in bounded files; text that is held out is never trained on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from tokenizers.processors import TemplateProcessing

from specdec.errors import LoadError, SettingError
from specdec.tokenizer import load_tokenizer
from specdec.training import chats as texts
from specdec.training import vocab
from specdec.training.chats import SHORTEST, Chat, read_chats, sample, split
from specdec.training.lessons import Shelf, token_bytes
from specdec.training.order import TOGETHER, epoch
from specdec.training.teacher import Lesson, Teacher, taps_of
from tests.specdec.training.kit import LAYERS, rows, target, weights

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return target(tmp_path_factory.mktemp("lessons") / "target")


@pytest.fixture(scope="module")
def chats(folder: Path) -> list[Chat]:
    every = read_chats(rows(folder.parent / "rows.jsonl", 40), load_tokenizer(folder))
    return list({chat.digest: chat for chat in every}.values())


def test_files_stay_within_their_bound_and_hold_the_target_s_law(
    folder: Path, chats: list[Chat], tmp_path: Path
) -> None:
    held = weights(folder)
    teacher = Teacher(held, 259)
    shard = 300 * token_bytes(64)
    shelf = Shelf(tmp_path, chats, 64, shard)
    asked: list[int] = []

    def teach(some: Sequence[Chat]) -> list[Lesson]:
        asked.append(len(some))
        return teacher.lessons(some)

    shelf.fill(teach, lambda: len(asked) < 2)
    assert (len(asked), shelf.sequences) == (2, sum(asked))
    shelf = Shelf(tmp_path, chats, 64, shard)  # as another run finds it
    assert (shelf.sequences, shelf.missing) == (sum(asked), len(chats) - sum(asked))
    shelf.fill(teach, lambda: True)
    assert sum(asked) == len(chats)  # none twice
    assert shelf.missing == 0
    stored = list(shelf)
    assert [tuple(s.ids.tolist()) for s in stored] == [chat.ids for chat in chats]
    assert shelf.tokens == sum(len(chat.ids) for chat in chats)
    for number in shelf.lengths:
        assert shelf.file(number).stat().st_size <= shard + 2000  # the file's own header
    for one, chat in zip(stored[:4], chats, strict=False):
        alone = teacher.lessons([chat])[0]
        torch.testing.assert_close(one.taps, alone.taps.bfloat16(), atol=2e-2, rtol=2e-2)
        logits = held.head(alone.last)[:, :259]
        torch.testing.assert_close(one.norm, logits.logsumexp(-1), atol=1e-3, rtol=1e-3)
        assert one.top.tolist() == logits.argmax(-1).tolist()
        assert one.said.sum() == sum(end - start for start, end in chat.replies)


def made(some: Sequence[Chat]) -> list[Lesson]:
    """As a teacher of width 2 would."""
    return [
        Lesson(torch.ones(n, 6), torch.ones(n, 2), torch.ones(n), torch.ones(n, dtype=torch.int32))
        for n in (len(chat.ids) for chat in some)
    ]


def always() -> bool:
    return True


def test_more_sequences_leave_what_is_written_and_those_left_out_are_passed_over(
    chats: list[Chat], tmp_path: Path
) -> None:
    Shelf(tmp_path, chats[:7], 2, 2000).fill(made, always)
    before = {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    (tmp_path / "00000.safetensors").rename(tmp_path / "00031.safetensors")  # numbers may jump
    wanted = [*chats[8:12], *chats[3:7]]
    shelf = Shelf(tmp_path, wanted, 2, 2000)
    assert (shelf.sequences, shelf.missing) == (4, 4)
    shelf.fill(made, always)
    stored = {tuple(s.ids.tolist()): s for s in shelf}
    assert stored.keys() == {chat.ids for chat in wanted}
    for chat in wanted:
        assert stored[chat.ids].said.sum() == sum(end - start for start, end in chat.replies)
    assert (
        len([f for f in tmp_path.iterdir() if f not in before]) == 1 + 4
    )  # a chat a file, and the one that jumped
    (tmp_path / "00032.safetensors").write_bytes(b"cut")
    with pytest.raises(LoadError, match=r"00032\.safetensors cannot be read"):
        Shelf(tmp_path, wanted, 2)


def test_all_files_together_stay_in_their_room(chats: list[Chat], tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, chats, 2)
    shelf.fill(made, always, 200)
    assert 100 < shelf.tokens <= 200
    assert [tuple(s.ids.tolist()) for s in shelf] == [c.ids for c in chats[: shelf.sequences]]
    other = Shelf(tmp_path, chats[20:], 2)  # what is passed over takes room all the same
    other.fill(made, always, 200)
    assert other.sequences == 0
    other.fill(made, always, 400)
    assert 100 < other.tokens <= 200


def test_text_is_on_one_side_only(chats: list[Chat]) -> None:
    for own, data in ((chats, []), ([], chats), (chats[:20], chats[10:])):
        train, held = split([*own, *own], [*data, *data])
        assert held
        assert {chat.ids for chat in held} <= {chat.ids for chat in own or data}
        assert not {chat.ids for chat in train} & {chat.ids for chat in held}
        assert {chat.ids for chat in train} | {chat.ids for chat in held} == {c.ids for c in chats}
    assert split([], reversed(chats)) == split([], chats)
    with pytest.raises(SettingError, match="too little to learn from"):
        split(chats[:1], [])


def test_chats_that_come_later_move_none_to_the_other_side() -> None:
    """Else a head would be examined on what it was trained on the evening before."""
    wrote = [Chat((*range(n, n + SHORTEST),), ((2, SHORTEST),)) for n in range(3000)]
    trained, sizes = set[bytes](), []
    for count in (2, 30, 300, 900, 3000):
        train, held = split(wrote[:count], wrote[2000:2100] if count > 300 else [])
        assert not trained & {chat.digest for chat in held}
        trained |= {chat.digest for chat in train}
        sizes.append(len(held))
        assert held[0] == wrote[0]
    assert sizes[0] == 1
    assert sizes == sorted(sizes)
    assert 8 <= sizes[2] <= 30  # one in twenty of 300
    assert sizes[-1] == texts.MOST_HELD


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
    tokenizer = load_tokenizer(folder)
    pieces = list(read_chats(tmp_path / "t.jsonl", tokenizer, 64))
    assert [len(piece.ids) for piece in pieces] == [64, 64, 22]
    assert pieces[2].replies == ((0, 22),)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 256)]
    )  # a target that never saw text without its first token
    pieces = list(read_chats(tmp_path / "t.jsonl", tokenizer, 64))
    assert [piece.ids[:2] for piece in pieces] == [(256, b) for b in b"adb"]
    assert b"".join(bytes(piece.ids[1:]) for piece in pieces) == b"abcde" * 30
    assert pieces[0].replies == ((1, 64),)


def test_of_a_larger_file_a_fixed_part_is_taken(chats: list[Chat]) -> None:
    few, more = sample(chats, 300), sample(reversed(chats), 600)
    assert more[: len(few)] == few
    assert 300 <= sum(len(chat.ids) for chat in few) < 400
    everything = sample(chats, 10**6)
    assert everything[: len(more)] == more
    assert everything == sorted(chats, key=lambda chat: chat.digest)


def test_a_row_ends_at_its_newline_alone(folder: Path, tmp_path: Path) -> None:
    text = "one\u2028two\x85three\x0cfour"
    (tmp_path / "t.jsonl").write_text(json.dumps({"text": text}, ensure_ascii=False) + "\r\n")
    (piece,) = read_chats(tmp_path / "t.jsonl", load_tokenizer(folder))
    assert bytes(piece.ids).decode() == text


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
        list(read_chats(file, load_tokenizer(folder)))


def test_the_head_s_vocabulary_is_what_occurs_most() -> None:
    said = [Chat((5, 5, 9, 2), ((0, 4),)), Chat((2, 5, 7, 1, 1, 1), ((0, 3),))]
    read = [*said, Chat((8, 8, 8, 3, 7), ())]
    assert vocab.choose(said, read, 2) == (2, 5)
    assert vocab.choose(said, read, 4) == (2, 5, 7, 9)  # of those said once, 7 occurs more
    assert vocab.choose(said, read, 5) == (1, 2, 5, 7, 9)  # none of more use than those said
    assert vocab.choose(said, read, 100) == (1, 2, 3, 5, 7, 8, 9)
    assert vocab.covered(said, (2, 5)) == 5 / 7
    d2t, t2d = vocab.maps((2, 5, 7), 10)
    assert (d2t + torch.arange(3)).tolist() == [2, 5, 7]
    assert t2d.nonzero()[:, 0].tolist() == [2, 5, 7]


def test_an_epoch_has_every_sequence_once_in_an_order_of_its_own() -> None:
    lengths = {0: [5, 90, 30, 41] * 30, 3: [90] * 20}
    picks = epoch(lengths, 200, 1, 0)
    seen = sorted((pick.part, place) for pick in picks for place in pick.places)
    assert seen == [(part, i) for part in lengths for i in range(len(lengths[part]))]
    assert all(max(lengths[p.part][i] for i in p.places) * len(p.places) <= 200 for p in picks)
    assert picks == epoch(lengths, 200, 1, 0)
    assert picks != epoch(lengths, 200, 1, 1)
    where = [place for place, pick in enumerate(picks) if pick.part == 3]
    assert where != list(range(where[0], where[0] + len(where)))  # among the others


def test_few_files_are_open_at_once() -> None:
    picks = epoch({part: [50] * 8 for part in range(11)}, 100, 0, 0)
    first = {part: min(i for i, p in enumerate(picks) if p.part == part) for part in range(11)}
    last = {part: max(i for i, p in enumerate(picks) if p.part == part) for part in range(11)}
    for place in range(len(picks)):
        assert sum(first[part] <= place <= last[part] for part in range(11)) <= TOGETHER


def test_three_layers_are_tapped() -> None:
    assert taps_of(30) == (2, 15, 27)
    assert taps_of(LAYERS) == (2, 4, 5)
    assert taps_of(4) == (1, 2, 3)
    with pytest.raises(SettingError, match="three layers apart"):
        taps_of(3)
