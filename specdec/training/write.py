"""The target writes its own chats, user turns included: many at once, kept in small files.

What it thought of each token while it wrote is handed on with the chat. Knows a batched decoder, a
template's pieces and a folder; nothing of training.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from specdec.decoder import Weights
from specdec.errors import LoadError
from specdec.training.batch import BatchDecoder, rows_within
from specdec.training.chats import Chat
from specdec.training.files import next_file, numbered, read_json, write_json
from specdec.training.frame import Frame
from specdec.training.notes import Notes
from specdec.training.speaker import Speaker
from specdec.training.teacher import Lesson, law, taps_of

LENGTH = 384
"""Most tokens of a chat."""

ROWS = 64
"""Chats that are written at once, at most."""

BLOCK = 32
"""Chats of a file: what a kill can lose is as much, and what is being written."""

TOP_K, TOP_P = 256, 0.95
USER_HEAT = 0.8
REPLY_HEATS = (0.0, 0.4, 0.8)
"""Temperatures of replies, a chat each in turn; 0 is greedy. A head guesses best what it was shown,
and a chat is had at any of them."""

COLDEST = 1e-3
"""What 0 is drawn with: a logit lower by a tenth then has a share of 1e-43."""


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
        taps = taps_of(shape.layers)
        self._decoder = BatchDecoder(weights, self._rows, LENGTH, taps)
        self._device = self._decoder.device
        self._notes = Notes(self._rows, LENGTH, shape.hidden, len(taps), self._device)
        self._frame, self._vocab = frame, min(vocab, shape.rows)
        self._hidden = torch.zeros(shape.rows, dtype=torch.bool)
        self._hidden[vocab:] = True
        self._hidden[list(frame.banned)] = True
        self._hidden = self._hidden.to(self._device)
        self._thought = self._open(frame.opening)
        self._prefix = self._decoder.prefix(len(frame.opening))

    def write(
        self, count: int, seed: int, go_on: Callable[[], bool]
    ) -> Iterator[tuple[Chat, Lesson]]:
        """`count` chats, each as it ends; fewer where more come to nothing than to something.

        When `go_on()` says no, those that are being written end where they are.
        """
        random = torch.Generator(self._device).manual_seed(seed)
        begun, nothing, rows = 0, 0, list[Speaker | None]([None] * min(self._rows, count))
        read = [0] * len(rows)  # tokens of each that the target has thought about
        while True:
            for place, speaker in enumerate(rows):
                if speaker is not None and speaker.done and read[place] == len(speaker.ids):
                    rows[place] = None
                    if (chat := speaker.chat()) is not None:
                        yield chat, self._notes.lesson(place, read[place])
                    else:
                        nothing += 1
                if rows[place] is None and begun < count + min(nothing, count):
                    heat = REPLY_HEATS[begun % len(REPLY_HEATS)]
                    begun += 1
                    rows[place] = Speaker(self._frame, LENGTH, USER_HEAT, heat)
                    self._decoder.begin(place, self._prefix)
                    self._notes.begin(place, self._thought)
            if not any(rows):
                return
            if not go_on():
                count = 0
                for speaker in filter(None, rows):
                    speaker.cut()
            read = [len(row.ids) if row else 0 for row in rows]
            self._step(rows, random)

    def _open(self, opening: tuple[int, ...]) -> Lesson:
        """Read what every chat begins with into the first row."""
        ids = torch.tensor([opening], dtype=torch.int64, device=self._device)
        states = self._decoder.states(ids, ids.new_zeros(1), 0)
        last = states.last[0]
        return Lesson(states.taps[0], last, *law(self._decoder.logits(last), self._vocab))

    def _step(self, rows: list[Speaker | None], random: torch.Generator) -> None:
        """One token more for each; a row that nobody uses repeats its first place."""
        ids = [row.ids[-1] if row else 0 for row in rows]
        longest = max(len(row.ids) - 1 if row else 0 for row in rows)
        starts = torch.tensor([len(row.ids) - 1 if row else 0 for row in rows], device=self._device)
        states = self._decoder.states(
            torch.tensor(ids, device=self._device)[:, None], starts, longest
        )
        logits = self._decoder.logits(states.last[:, 0]).float()
        self._notes.add(starts, states, *law(logits, self._vocab))
        going = [place for place, row in enumerate(rows) if row and not row.done]
        draws = [place for place in going if (row := rows[place]) and not row.forced]
        for row in rows:
            if row and row.forced and not row.done:
                row.force()
        if not draws:
            return
        speakers = [row for place in draws if (row := rows[place])]
        heat = torch.tensor([row.heat for row in speakers])
        drawn = self._draw(logits[draws], heat.to(self._device), random)
        for row, token in zip(speakers, drawn, strict=True):
            row.hear(token)

    def _draw(self, logits: Tensor, heat: Tensor, random: torch.Generator) -> list[int]:
        """Of the likeliest `TOP_K`, those that make up `TOP_P`: [r, rows] -> r ids."""
        logits = logits.masked_fill(self._hidden, -torch.inf)
        best = logits.topk(min(TOP_K, logits.shape[1]))
        law = (best.values / heat.clamp_min(COLDEST)[:, None]).softmax(-1)
        law = law.masked_fill(law.cumsum(-1) - law >= TOP_P, 0)
        place = torch.multinomial(law, 1, generator=random)
        return best.indices.gather(1, place)[:, 0].tolist()


def write_chats(
    files: ChatFiles,
    learn: Callable[[Sequence[Chat], Sequence[Lesson]], None],
    count: int,
    seed: int,
    open_writer: Callable[[int], Writer],
    go_on: Callable[[int], bool],
    say: Callable[[str], None],
) -> None:
    """Write until there are `count` chats in `files`, or `go_on(chats so far)` says no.

    What another run wrote is kept, and this one draws anew from there. `learn` gets the chats of
    each file, and what the target thought of them, when they are in it.
    """
    waiting: list[Chat] = []
    thought: list[Lesson] = []
    done, tokens, began = sum(1 for _ in files), 0, time.monotonic()
    if done >= count or not go_on(done):
        return

    def keep() -> None:
        files.add(waiting)
        learn(waiting, thought)
        waiting.clear()
        thought.clear()
        speed = tokens / (time.monotonic() - began)
        say(f"the target wrote {done:,} of {count:,} chats, {speed:.0f} tokens a second")

    def wanted() -> bool:
        return go_on(done)

    writer = open_writer(count - done)
    for chat, lesson in writer.write(count - done, seed * 1_000_003 + done, wanted):
        waiting.append(chat)
        thought.append(lesson)
        done, tokens = done + 1, tokens + len(chat.ids)
        if len(waiting) == BLOCK:
            keep()
    if waiting:
        keep()
