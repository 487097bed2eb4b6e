"""Chats that the target writes itself, and what it thinks of them meanwhile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from specdec.tokenizer import load_tokenizer
from specdec.training import speaker, write
from specdec.training.frame import frame_of
from specdec.training.teacher import Teacher
from tests.specdec.training.kit import target, weights

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("write")
    target(base / "target")
    return base


def test_chats_that_are_cut_short_are_kept(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = weights(folder / "target")
    tokenizer = load_tokenizer(folder / "target")
    monkeypatch.setattr(speaker, "USER", 12)
    writer = write.Writer(held, 259, frame_of(tokenizer, (258, 256)), 5)
    steps = iter(range(60))
    chats = [chat for chat, _ in writer.write(50, 0, lambda: next(steps, None) is not None)]
    assert 0 < len(chats) <= 5 * 60 // 12
    assert all(end <= len(chat.ids) for chat in chats for _, end in chat.replies)
    assert any(chat.ids[-1] not in (256, 258) for chat in chats)


@pytest.mark.parametrize("going", [10_000, 60], ids=["whole", "cut"])
def test_what_the_target_thought_while_writing_is_what_it_thinks_when_reading(
    folder: Path, going: int
) -> None:
    held, tokenizer = weights(folder / "target"), load_tokenizer(folder / "target")
    writer = write.Writer(held, 259, frame_of(tokenizer, (258, 256)), 3)
    steps = iter(range(going))
    wrote = list(writer.write(5, 1, lambda: next(steps, None) is not None))
    assert len(wrote) == 5 if going > 60 else 0 < len(wrote) < 5
    read = Teacher(held, 259).lessons([chat for chat, _ in wrote])
    for (chat, thought), lesson in zip(wrote, read, strict=True):
        assert thought.taps.shape == lesson.taps.shape == (len(chat.ids), 3 * held.shape.hidden)
        torch.testing.assert_close(thought.taps.float(), lesson.taps.float(), rtol=0.02, atol=0.02)
        torch.testing.assert_close(thought.last.float(), lesson.last.float(), rtol=0.02, atol=0.02)
        torch.testing.assert_close(thought.norm, lesson.norm, rtol=1e-4, atol=1e-4)
        assert (thought.top == lesson.top).float().mean() > 0.98


def test_one_reply_in_three_is_greedy(folder: Path) -> None:
    held, tokenizer = weights(folder / "target"), load_tokenizer(folder / "target")
    frame = frame_of(tokenizer, (258, 256))
    writer = write.Writer(held, 259, replace(frame, banned=()), 3)
    steps = iter(range(200))
    shares = []
    for chat, thought in writer.write(3, 1, lambda: next(steps, None) is not None):
        said = [place for start, end in chat.replies for place in range(start, end)]
        likeliest = [int(thought.top[place - 1]) == chat.ids[place] for place in said]
        shares.append(sum(likeliest) / len(likeliest))
    assert len(shares) == 3
    assert sum(share == 1.0 for share in shares) == 1
    assert min(shares) < 0.5
