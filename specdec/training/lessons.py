"""Lessons in bounded files: what the target thought of each sequence, written once, read often.

What a file holds is told by the ids in it, so sequences may be added, or left out, at any time.
Knows files and sequences; nothing of how lessons are made or used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from specdec.errors import LoadError
from specdec.training.chats import Chat, digest
from specdec.training.files import next_file, numbered, write_tensors
from specdec.training.teacher import Lesson

SHARD, SUFFIX = 64 << 20, ".safetensors"
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


class Shelf:
    """The files of one set of sequences; those in them that are not of the set are passed over."""

    def __init__(
        self, folder: Path, chats: Sequence[Chat], hidden: int, shard: int = SHARD
    ) -> None:
        """Raises LoadError for a file that is none."""
        self._folder, self._one, self._shard = folder, token_bytes(hidden), shard
        self._missing = {chat.digest: chat for chat in chats}
        self._places: dict[int, list[tuple[int, int]]] = {}  # of each file: start and end
        self._held = 0  # tokens of all files, also of what is passed over
        for number in numbered(folder, SUFFIX):
            self._find(number)

    def file(self, number: int) -> Path:
        """Where a file lies."""
        return self._folder / f"{number:05d}{SUFFIX}"

    def fill(
        self,
        teach: Callable[[Sequence[Chat]], list[Lesson]],
        go_on: Callable[[], bool],
        room: int | None = None,
    ) -> None:
        """Write what is missing, in order, while `go_on()`; files hold `room` tokens at most."""
        waiting, left = list(self._missing.values()), None if room is None else room - self._held
        for bundle in _cut(waiting, left, self._shard // self._one):
            if not go_on():
                return
            chats, file = [waiting[i] for i in bundle], next_file(self._folder, SUFFIX)
            _write(file, chats, teach(chats))
            self._find(int(file.stem))

    def add(self, chats: Sequence[Chat], lessons: Sequence[Lesson], room: int) -> None:
        """Write what was learnt elsewhere; what would make more than `room` tokens is left out."""
        for bundle in _cut(chats, room - self._held, self._shard // self._one):
            file = next_file(self._folder, SUFFIX)
            _write(file, [chats[i] for i in bundle], [lessons[i] for i in bundle])
            self._find(int(file.stem))

    @property
    def missing(self) -> int:
        """Sequences that no file holds."""
        return len(self._missing)

    @property
    def lengths(self) -> dict[int, list[int]]:
        """Tokens of each sequence that `read` gives, by file."""
        return {
            number: [end - start for start, end in places]
            for number, places in self._places.items()
            if places
        }

    @property
    def sequences(self) -> int:
        """Those of the set that are written."""
        return sum(map(len, self._places.values()))

    @property
    def tokens(self) -> int:
        """Tokens of those."""
        return sum(map(sum, self.lengths.values()))

    def read(self, number: int) -> list[Stored]:
        """The sequences of the set in one file, in order."""
        tensors = load_file(self.file(number))
        return [_stored(tensors, start, end) for start, end in self._places[number]]

    def __iter__(self) -> Iterator[Stored]:
        for number in self.lengths:
            yield from self.read(number)

    def _find(self, number: int) -> None:
        """Note which missing sequences a file holds, and where."""
        file = self.file(number)
        try:
            with safe_open(file, "pt") as stored:
                ids = stored.get_tensor("ids").tolist()
                ends = stored.get_tensor("lengths").cumsum(0).tolist()
        except Exception as error:  # safetensors has errors of its own kind
            raise LoadError(
                f"{file} cannot be read: {error}.", "Remove it: it is then written anew."
            ) from error
        spans = zip([0, *ends[:-1]], ends, strict=True)
        self._held += len(ids)
        self._places[number] = [
            span for span in spans if self._missing.pop(digest(ids[slice(*span)]), None)
        ]


def _cut(chats: Sequence[Chat], left: int | None, most: int) -> list[list[int]]:
    """Places of chats, cut to files of about `most` tokens, up to the first that does not fit."""
    bundles: list[list[int]] = []
    space = 0
    for place, chat in enumerate(chats):
        count = len(chat.ids)
        if left is not None and (left := left - count) < 0:
            break
        if count > space:
            bundles.append([])
            space = most
        bundles[-1].append(place)
        space -= count
    return bundles


def _write(file: Path, chats: Sequence[Chat], lessons: Sequence[Lesson]) -> None:
    tensors = {
        "ids": torch.tensor([i for chat in chats for i in chat.ids], dtype=torch.int32),
        "said": torch.cat([_said(chat) for chat in chats]),
        "lengths": torch.tensor([len(chat.ids) for chat in chats]),
        "taps": torch.cat([lesson.taps for lesson in lessons]).bfloat16(),
        "last": torch.cat([lesson.last for lesson in lessons]).bfloat16(),
        "norm": torch.cat([lesson.norm for lesson in lessons]),
        "top": torch.cat([lesson.top for lesson in lessons]),
    }
    write_tensors(file, tensors, {})


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
