"""The target writes its own chats, user turns included: many at once, kept in small files.

Knows a batched decoder, a template's pieces and a folder; nothing of training.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from specdec.decoder import Weights
from specdec.errors import LoadError
from specdec.training.batch import BatchDecoder, rows_within
from specdec.training.chats import Chat
from specdec.training.files import next_file, numbered, read_json, write_json
from specdec.training.frame import Frame
from specdec.training.speaker import Speaker

LENGTH = 384
"""Most tokens of a chat."""

ROWS = 64
"""Chats that are written at once, at most."""

BLOCK = 32
"""Chats of a file: what a kill can lose is as much, and what is being written."""

TOP_K, TOP_P = 256, 0.95
USER_HEAT, REPLY_HEAT = 1.0, 0.8
"""Temperatures: users differ more from each other than replies to one of them."""


class ChatFiles:
    """Chats in files of `BLOCK`, in the order in which they ended."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, chats: list[Chat]) -> None:
        """Keep these as one more file."""
        rows = [{"ids": chat.ids, "replies": chat.replies} for chat in chats]
        write_json(next_file(self._folder, ".json"), rows)

    def __iter__(self) -> Iterator[Chat]:
        """Raises LoadError for a file that `add` did not write."""
        for file in numbered(self._folder, ".json").values():
            rows = read_json(file)
            try:
                for row in rows:
                    yield Chat(tuple(row["ids"]), tuple((a, b) for a, b in row["replies"]))
            except (KeyError, TypeError, ValueError) as error:
                raise LoadError(
                    f"{file} holds no chats: {error!r}.", "Remove it: others are then written."
                ) from error


class Writer:
    """Writes chats with one target."""

    def __init__(self, weights: Weights, vocab: int, frame: Frame, rows: int) -> None:
        """`vocab`: ids that may be said; `rows`: chats at once, fewer where memory is short."""
        shape = weights.shape
        self._rows = rows_within(weights, LENGTH, min(rows, ROWS))
        self._decoder = BatchDecoder(weights, self._rows, LENGTH)
        self._device = self._decoder.device
        self._frame = frame
        self._hidden = torch.zeros(shape.rows, dtype=torch.bool)
        self._hidden[vocab:] = True
        self._hidden[list(frame.banned)] = True
        self._hidden = self._hidden.to(self._device)
        opening = torch.tensor([frame.opening[:-1]], device=self._device)
        if opening.numel():
            self._decoder.states(opening, opening.new_zeros(1), 0)
        self._prefix = self._decoder.prefix(opening.shape[1])

    def write(self, count: int, seed: int, go_on: Callable[[], bool]) -> Iterator[Chat]:
        """`count` chats, each as it ends; fewer where more come to nothing than to something.

        When `go_on()` says no, those that are being written end where they are.
        """
        random = torch.Generator(self._device).manual_seed(seed)
        begun, nothing, rows = 0, 0, list[Speaker | None]([None] * min(self._rows, count))
        while True:
            for place, speaker in enumerate(rows):
                if speaker is not None and speaker.done:
                    rows[place] = None
                    if (chat := speaker.chat()) is not None:
                        yield chat
                    else:
                        nothing += 1
                if rows[place] is None and begun < count + min(nothing, count):
                    begun += 1
                    rows[place] = Speaker(self._frame, LENGTH)
                    self._decoder.begin(place, self._prefix)
            if not any(rows):
                return
            if go_on():
                self._step(rows, random)
                continue
            count = 0
            for speaker in rows:
                if speaker is not None:
                    speaker.cut()

    def _step(self, rows: list[Speaker | None], random: torch.Generator) -> None:
        """One token more for each; a row that nobody uses repeats its first place."""
        ids = [row.ids[-1] if row else 0 for row in rows]
        starts = [len(row.ids) - 1 if row else 0 for row in rows]
        states = self._decoder.states(
            torch.tensor(ids, device=self._device)[:, None],
            torch.tensor(starts, device=self._device),
            max(starts),
        )
        draws = [place for place, row in enumerate(rows) if row and not row.forced]
        for row in rows:
            if row and row.forced:
                row.force()
        if not draws:
            return
        speakers = [row for place in draws if (row := rows[place])]
        logits = self._decoder.logits(states.last[draws, 0])
        heat = torch.tensor([REPLY_HEAT if row.replying else USER_HEAT for row in speakers])
        drawn = self._draw(logits.float(), heat.to(self._device), random)
        for row, token in zip(speakers, drawn, strict=True):
            row.hear(token)

    def _draw(self, logits: Tensor, heat: Tensor, random: torch.Generator) -> list[int]:
        """Of the likeliest `TOP_K`, those that make up `TOP_P`: [r, rows] -> r ids."""
        logits = logits.masked_fill(self._hidden, -torch.inf)
        best = logits.topk(min(TOP_K, logits.shape[1]))
        law = (best.values / heat[:, None]).softmax(-1)
        law = law.masked_fill(law.cumsum(-1) - law >= TOP_P, 0)
        place = torch.multinomial(law, 1, generator=random)
        return best.indices.gather(1, place)[:, 0].tolist()


def write_chats(
    files: ChatFiles,
    count: int,
    seed: int,
    open_writer: Callable[[int], Writer],
    go_on: Callable[[int], bool],
    say: Callable[[str], None],
) -> None:
    """Write until there are `count` chats in `files`, or `go_on(chats so far)` says no.

    What another run wrote is kept, and this one draws anew from there.
    """
    waiting: list[Chat] = []
    done, tokens, began = sum(1 for _ in files), 0, time.monotonic()
    if done >= count or not go_on(done):
        return

    def keep() -> None:
        files.add(waiting)
        waiting.clear()
        speed = tokens / (time.monotonic() - began)
        say(f"the target wrote {done:,} of {count:,} chats, {speed:.0f} tokens a second")

    def wanted() -> bool:
        return go_on(done)

    for chat in open_writer(count - done).write(count - done, seed * 1_000_003 + done, wanted):
        waiting.append(chat)
        done, tokens = done + 1, tokens + len(chat.ids)
        if len(waiting) == BLOCK:
            keep()
    if waiting:
        keep()
