"""Lessons in bounded files: what the target thought of each sequence, written once, read often.

Knows files and sequences; nothing of how lessons are made or used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from specdec.training.chats import Chat
from specdec.training.files import write_json, write_tensors
from specdec.training.teacher import Lesson

SHARD = 64 << 20
"""Bytes of a file at most, unless one sequence alone takes more."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One sequence and its lesson, as read back."""

    ids: Tensor  # int64 [n]
    said: Tensor  # bool [n], tokens a model said
    taps: Tensor  # bf16 [n, 3 * hidden]
    last: Tensor  # bf16 [n, hidden]
    norm: Tensor  # float32 [n]
    top: Tensor  # int64 [n]


def token_bytes(hidden: int) -> int:
    """Bytes a token takes in a file: four states in bf16, and what goes with them."""
    return 4 * hidden * 2 + 4 + 1 + 4 + 4


def within(chats: Sequence[Chat], tokens: int) -> list[Chat]:
    """The first chats that hold at most `tokens` tokens together."""
    kept, total = [], 0
    for chat in chats:
        total += len(chat.ids)
        if total > tokens:
            break
        kept.append(chat)
    return kept


class Shelf:
    """The files of one set of sequences; which sequence lies where follows from their order."""

    def __init__(
        self, folder: Path, chats: Sequence[Chat], hidden: int, shard: int = SHARD
    ) -> None:
        self._folder, self._one = folder, token_bytes(hidden)
        self.parts: list[list[Chat]] = []
        room = 0
        for chat in chats:
            if len(chat.ids) * self._one > room or not self.parts:
                self.parts.append([])
                room = shard
            self.parts[-1].append(chat)
            room -= len(chat.ids) * self._one

    def file(self, part: int) -> Path:
        """Where a part lies, or will."""
        return self._folder / f"{part:05d}.safetensors"

    def fill(
        self,
        teach: Callable[[Sequence[Chat]], list[Lesson]],
        go_on: Callable[[int], bool],
    ) -> None:
        """Write the files that are missing, in order, while `go_on(parts done)`."""
        for part, chats in enumerate(self.parts):
            if self.file(part).exists():
                continue
            if not go_on(part):
                break
            self._write(part, chats, teach(chats))
        rows = [
            {"file": self.file(part).name, "sequences": len(chats), "tokens": _tokens(chats)}
            for part, chats in enumerate(self.parts)
            if self.file(part).exists()
        ]
        write_json(self._folder / "index.json", {"token_bytes": self._one, "files": rows})

    @property
    def ready(self) -> list[int]:
        """The parts that are written."""
        return [part for part in range(len(self.parts)) if self.file(part).exists()]

    @property
    def tokens(self) -> int:
        """Tokens of the parts that are written."""
        return sum(_tokens(self.parts[part]) for part in self.ready)

    def read(self, part: int) -> list[Stored]:
        """The sequences of one file, in order."""
        tensors = load_file(self.file(part))
        ends = tensors["lengths"].cumsum(0).tolist()
        starts = [0, *ends[:-1]]
        return [_stored(tensors, start, end) for start, end in zip(starts, ends, strict=True)]

    def __iter__(self) -> Iterator[Stored]:
        for part in self.ready:
            yield from self.read(part)

    def _write(self, part: int, chats: Sequence[Chat], lessons: Sequence[Lesson]) -> None:
        tensors = {
            "ids": torch.tensor([i for chat in chats for i in chat.ids], dtype=torch.int32),
            "said": torch.cat([_said(chat) for chat in chats]),
            "lengths": torch.tensor([len(chat.ids) for chat in chats]),
            "taps": torch.cat([lesson.taps for lesson in lessons]).bfloat16(),
            "last": torch.cat([lesson.last for lesson in lessons]).bfloat16(),
            "norm": torch.cat([lesson.norm for lesson in lessons]),
            "top": torch.cat([lesson.top for lesson in lessons]),
        }
        write_tensors(self.file(part), tensors, {})


def _stored(tensors: dict[str, Tensor], start: int, end: int) -> Stored:
    def cut(name: str) -> Tensor:
        return tensors[name][start:end]

    ids, top = cut("ids").long(), cut("top").long()
    return Stored(ids, cut("said"), cut("taps"), cut("last"), cut("norm"), top)


def _said(chat: Chat) -> Tensor:
    said = torch.zeros(len(chat.ids), dtype=torch.bool)
    for start, end in chat.replies:
        said[start:end] = True
    return said


def _tokens(chats: Sequence[Chat]) -> int:
    return sum(len(chat.ids) for chat in chats)
