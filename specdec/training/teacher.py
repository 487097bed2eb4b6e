"""The target as a teacher: its states, its law, and the frozen matrices the head shares with it.

Knows one loaded target; nothing of files of states or of training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from specdec import tensor_names
from specdec.checkpoint import open_checkpoint
from specdec.decoder import Weights
from specdec.errors import SettingError
from specdec.families import Shape
from specdec.training.batch import BatchDecoder, rows_within
from specdec.training.chats import LENGTH, Chat

ROWS = 2048
"""Tokens of a teacher-forced call, padding included."""

FEWEST = 4
"""Layers below which three states apart from each other cannot be tapped."""

BAND = 512
"""Rows whose logits over the whole vocabulary are in memory at once."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """What the target thought of one sequence of n tokens."""

    taps: Tensor  # [n, 3 * hidden]
    last: Tensor  # [n, hidden], after the final norm: the whole law follows from it
    norm: Tensor  # float32 [n], log of the sum over the whole vocabulary of exp(logit)
    top: Tensor  # int32 [n], the most likely next token of the whole vocabulary


def taps_of(layers: int) -> tuple[int, int, int]:
    """The layers whose input a head reads: EAGLE's own choice, (2, n // 2, n - 3).

    Where two of those are one, the spread that is left. Raises SettingError below 4 layers.
    """
    if layers < FEWEST:
        raise SettingError(
            f"A head reads three layers apart; this target has {layers} in all.",
            f"Choose a target of at least {FEWEST} layers.",
        )
    return (2, layers // 2, layers - 3) if layers > 6 else (1, layers // 2, layers - 1)


class Teacher:
    """Teacher-forced passes over token sequences."""

    def __init__(self, weights: Weights, vocab: int) -> None:
        """`vocab`: tokens the tokenizer knows; rows beyond them are never said."""
        self.shape = weights.shape
        self.vocab = min(vocab, weights.shape.rows)
        rows = rows_within(weights, LENGTH, ROWS // 64)
        self._decoder = BatchDecoder(weights, rows, LENGTH, taps_of(weights.shape.layers))

    def lessons(self, chats: Sequence[Chat]) -> list[Lesson]:
        """One for each chat, in their order; those of a length are read together."""
        found: dict[int, Lesson] = {}
        waiting = sorted(range(len(chats)), key=lambda i: len(chats[i].ids))
        while waiting:
            longest = len(chats[waiting[-1]].ids)
            count = max(1, min(self._decoder.rows, ROWS // longest))
            batch, waiting = waiting[-count:], waiting[:-count]
            for index, lesson in zip(batch, self._read([chats[i] for i in batch]), strict=True):
                found[index] = lesson
        return [found[index] for index in range(len(chats))]

    @torch.inference_mode()
    def _read(self, chats: Sequence[Chat]) -> list[Lesson]:
        device, longest = self._decoder.device, max(len(chat.ids) for chat in chats)
        ids = torch.zeros(len(chats), longest, dtype=torch.int64)
        for row, chat in enumerate(chats):
            ids[row, : len(chat.ids)] = torch.tensor(chat.ids)
        starts = torch.zeros(len(chats), dtype=torch.int64, device=device)
        states = self._decoder.states(ids.to(device), starts, 0)
        lessons = []
        for row, chat in enumerate(chats):
            n = len(chat.ids)
            last = states.last[row, :n]
            norm, top = self._law(last)
            lessons.append(Lesson(states.taps[row, :n].cpu(), last.cpu(), norm, top))
        return lessons

    def _law(self, last: Tensor) -> tuple[Tensor, Tensor]:
        bands = [law(self._decoder.logits(band), self.vocab) for band in torch.split(last, BAND)]
        norms, tops = zip(*bands, strict=True)
        return torch.cat(norms).cpu(), torch.cat(tops).cpu()


def law(logits: Tensor, vocab: int) -> tuple[Tensor, Tensor]:
    """`norm` and `top` of a `Lesson`, from logits [rows, at least vocab]."""
    said = logits[:, :vocab].float()
    return said.logsumexp(-1), said.argmax(-1).int()


def frozen_ends(folder: Path, shape: Shape) -> tuple[Tensor, Tensor]:
    """The embedding and the output matrix [rows, hidden] as the files hold them, on the CPU.

    Raises LoadError.
    """
    size = (shape.rows, shape.hidden)
    with open_checkpoint(folder) as checkpoint:
        prefix = tensor_names.prefix_in(checkpoint)
        embed = checkpoint.get(prefix + tensor_names.EMBED_END, size)
        name = tensor_names.HEAD
        return embed, embed if shape.tied else checkpoint.get(name, size)
