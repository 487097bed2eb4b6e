"""Earlier replies: found while lent, never else; bounded, cleared, and sound on a bad file."""

from __future__ import annotations

import logging
import random
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from specdec.drafters import store, store_file
from specdec.drafters.base import Context
from specdec.drafters.ngram import NgramDrafter
from specdec.drafters.store import ReplyStore
from specdec.errors import StoreError
from specdec.noise import Noise
from specdec.request import Sampling

VOCAB, PRINT = 1000, "ab" * 32
REPLY = tuple(range(100, 140))


def opened(data: Path, fingerprint: str = PRINT, vocab: int = VOCAB) -> ReplyStore:
    return ReplyStore(store_file.folder_of(data), fingerprint, vocab)


def keep(shelf: ReplyStore, ids: Sequence[int], conversation: str = "chat") -> None:
    with shelf.lending(conversation) as lease:
        lease.keep(ids)


def found(shelf: ReplyStore, *tokens: int, k: int = 3) -> tuple[int, ...]:
    """What would be drafted after these tokens, while the store is lent."""
    with shelf.lending("another"):
        run, place = shelf.find(tokens, 2)
        return shelf.after(place, k) if run else ()


def test_a_reply_is_found_by_a_later_one_in_this_process_and_the_next(tmp_path: Path) -> None:
    shelf = opened(tmp_path)
    keep(shelf, REPLY)
    assert found(shelf, 7, 110, 111) == (112, 113, 114)
    assert found(opened(tmp_path), 7, 110, 111) == (112, 113, 114)
    assert found(opened(tmp_path, "cd" * 32), 110, 111) == ()  # another tokenizer's ids


def test_it_is_shut_unless_lent(tmp_path: Path) -> None:
    shelf = opened(tmp_path)
    keep(shelf, REPLY)
    assert shelf.find((110, 111), 2) == (0, 0)
    with shelf.lending("chat"):
        assert shelf.find((110, 111), 2)[0] == 2
    with pytest.raises(RuntimeError), shelf.lending("chat"):
        raise RuntimeError
    assert shelf.find((110, 111), 2) == (0, 0)


def test_the_longest_run_wins_and_of_equals_the_latest(tmp_path: Path) -> None:
    shelf = opened(tmp_path)
    keep(shelf, [1, 2, 3, 4, 50, 50, 50, 50])
    keep(shelf, [9, 3, 4, 60, 60, 60, 60, 60])
    keep(shelf, [9, 3, 4, 70, 70, 70, 70, 70])
    for one in (shelf, opened(tmp_path)):  # new ones sorted by themselves; all together
        assert found(one, 2, 3, 4, k=1) == (50,)
        assert found(one, 8, 3, 4, k=1) == (70,)


@pytest.mark.parametrize("again", [0, 10**9], ids=["sorted anew", "beside"])
def test_many_replies_by_brute_force(
    tmp_path: Path, again: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_AGAIN", again)
    coin, shelf, replies = random.Random(5), opened(tmp_path), list[list[int]]()
    for _ in range(30):
        replies.append([coin.randrange(6) for _ in range(coin.randrange(8, 40))])
        keep(shelf, replies[-1])
        tokens = [coin.randrange(6) for _ in range(12)]
        places = [(text[:i], text[i:]) for text in replies for i in range(1, len(text))]
        longest = max(shared(before, tokens) for before, _ in places)
        latest = next(b for a, b in reversed(places) if shared(a, tokens) == longest)
        assert found(shelf, *tokens) == (tuple(latest[:3]) if longest > 1 else ())


def shared(one: Sequence[int], other: Sequence[int]) -> int:
    """How many last tokens are the same."""
    pairs = zip(reversed(one), reversed(other), strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def test_the_oldest_give_way_and_a_repeated_reply_is_kept_once(tmp_path: Path) -> None:
    replies = [store_file.kept("chat", [i] * 10) for i in range(9)]
    assert store_file.newest(replies, 120) == replies[-3:]
    assert store_file.newest([*replies, replies[0]], 120) == [*replies[-2:], replies[0]]
    assert store_file.newest(replies, 0) == []


def test_the_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_file, "newest", lambda replies: replies[-2:])
    shelf = opened(tmp_path)
    for i in range(5):
        keep(shelf, [i * 20 + j for j in range(10)])
    assert found(opened(tmp_path), 41, 42) == ()
    assert found(opened(tmp_path), 61, 62) == (63, 64, 65)
    assert found(opened(tmp_path), 81, 82) == (83, 84, 85)


def test_few_tokenizers_are_kept(tmp_path: Path) -> None:
    for i in range(store_file.MOST_FILES + 3):
        keep(opened(tmp_path, f"{i:032x}" * 2), REPLY)
    folder = store_file.folder_of(tmp_path)
    assert len(list(folder.glob("*.replies"))) == store_file.MOST_FILES


def test_a_short_reply_is_not_kept(tmp_path: Path) -> None:
    keep(opened(tmp_path), REPLY[:7])
    assert list(tmp_path.iterdir()) == []


def test_forgetting_a_conversation_leaves_the_others(tmp_path: Path) -> None:
    shelf = opened(tmp_path)
    keep(shelf, REPLY, "one")
    keep(shelf, range(200, 220), "two")
    assert store_file.forget(tmp_path, "one") == 1
    assert found(shelf, 110, 111) == ()  # a store that is open sees it
    assert found(shelf, 210, 211) == (212, 213, 214)
    assert store_file.forget(tmp_path) == 1
    assert found(shelf, 210, 211) == found(opened(tmp_path), 210, 211) == ()
    assert store_file.forget(tmp_path) == 0


def test_a_reply_begun_before_its_chat_was_deleted_is_not_kept(tmp_path: Path) -> None:
    shelf = opened(tmp_path)
    keep(shelf, range(200, 220), "other")
    with shelf.lending("one") as lease:
        store_file.forget(tmp_path, "one")
        lease.keep(REPLY)
    assert found(shelf, 110, 111) == ()
    keep(shelf, REPLY, "one")  # the next one is
    assert found(shelf, 110, 111) == (112, 113, 114)


def test_two_processes_share_one_file(tmp_path: Path) -> None:
    one, two = opened(tmp_path), opened(tmp_path)
    keep(one, REPLY)
    keep(two, range(200, 220))
    for shelf in (one, two, opened(tmp_path)):
        assert found(shelf, 110, 111) == (112, 113, 114)
        assert found(shelf, 210, 211) == (212, 213, 214)


@pytest.mark.parametrize("harm", ["cut", "flipped", "foreign", "empty", "renamed", "endless"])
def test_a_bad_file_is_said_and_replaced(
    tmp_path: Path, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    keep(opened(tmp_path), REPLY)
    (path,) = store_file.folder_of(tmp_path).glob("*.replies")
    good = path.read_bytes()
    if harm == "renamed":
        keep(opened(tmp_path, "cd" * 32), REPLY)
        good = store_file.file_of(path.parent, "cd" * 32).read_bytes()
    if harm == "endless":  # a sum that is right, over a reply longer than the file
        body = struct.pack("<16sI", b"", 400) + bytes(12)
        head = good[: good.index(b"\n", len(store_file._MAGIC)) + 1]
        good = head + struct.pack("<I", zlib.crc32(body)) + body
    path.write_bytes(
        {
            "cut": good[:-3],
            "flipped": good[:-1] + bytes([good[-1] ^ 1]),
            "foreign": b"PK\x03\x04" + good,
            "empty": b"",
            "renamed": good,
            "endless": good,
        }[harm]
    )
    with caplog.at_level(logging.WARNING):
        shelf = opened(tmp_path)
    assert found(shelf, 110, 111) == ()
    assert f"the n-gram store {path} cannot be read" in caplog.text
    keep(shelf, REPLY)
    assert found(opened(tmp_path), 110, 111) == (112, 113, 114)


def test_ids_outside_the_vocabulary_are_never_drafted_and_stay_for_a_larger_one(
    tmp_path: Path,
) -> None:
    keep(opened(tmp_path), REPLY)
    assert found(opened(tmp_path, vocab=140), 110, 111) != ()
    smaller = opened(tmp_path, vocab=139)  # a model of the same tokenizer with fewer rows
    assert found(smaller, 110, 111) == ()
    keep(smaller, range(50, 60))
    assert found(smaller, 50, 51) == (52, 53, 54)
    assert found(opened(tmp_path, vocab=140), 110, 111) != ()


def test_what_a_killed_process_left_is_swept_away(tmp_path: Path) -> None:
    """Half-written files hold replies too: forgetting all must leave none."""
    shelf, folder = opened(tmp_path), store_file.folder_of(tmp_path)
    for act in (lambda: keep(shelf, REPLY), lambda: store_file.forget(tmp_path)):
        keep(shelf, range(200, 220))
        (folder / f"{store_file._PART}killed").write_bytes(b"a reply")
        act()
        assert not list(folder.glob(f"{store_file._PART}*"))
    assert {path.name for path in folder.iterdir()} == {"epoch", "lock"}


def test_forgetting_while_a_reply_begins_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = opened(tmp_path)
    keep(shelf, REPLY)
    epoch = store_file.epoch

    def forgotten_then(folder: Path) -> str:
        began = epoch(folder)
        store_file.forget(tmp_path)
        return began

    monkeypatch.setattr(store_file, "epoch", forgotten_then)
    with shelf.lending("chat"):
        assert shelf.find((110, 111), 2) == (0, 0)


def test_what_cannot_be_written_is_said_and_harms_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = store_file.folder_of(tmp_path)
    folder.write_text("in the way")
    keep(opened(tmp_path), REPLY)
    assert "was not kept for later drafts" in caplog.text
    folder.unlink()
    keep(opened(tmp_path), REPLY)
    (folder / "epoch").mkdir()  # so that nothing can be forgotten
    with pytest.raises(StoreError) as caught:
        store_file.forget(tmp_path)
    assert str(folder) in caught.value.message
    assert "delete it" in caught.value.hint


def test_the_drafter_copies_from_it(tmp_path: Path) -> None:
    shelf = opened(tmp_path)
    keep(shelf, REPLY)
    drafter = NgramDrafter(shelf)
    tokens = [5, 120, 121, 122, 123]
    context = Context(tokens, 0, Sampling(), "match", Noise(0, 0))
    assert drafter.offers(tokens) == ()
    with shelf.lending("chat"):
        (offer,) = drafter.offers(tokens)
        assert offer.learned_by == "ngram, stored run"
        assert drafter.propose(context, 3).tokens == (124, 125, 126)
    assert drafter.propose(context, 3).tokens == ()
