"""Sequences side by side for one unrolled pass, and what the head is to say at each of its rows.

Row i of step s has read token i + 1 + s and is to say what the target said there.
Knows stored lessons and tensors; nothing of files, optimisers or the head's layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from specdec.training.lessons import Stored
from specdec.training.module import DraftHead

STEPS = 4
"""How often the head is fed its own output: the depth that acceptance is told for."""


@dataclass(frozen=True, slots=True)
class Ends:
    """The frozen matrices, on the device. `ids` are the target's ids of the head's, ascending."""

    embed: Tensor  # [vocab, hidden]
    rows: Tensor  # float32 [D, hidden], the output matrix's
    ids: Tensor  # int64 [D]


@dataclass(frozen=True, slots=True)
class Batch:
    """b sequences, padded to n tokens and STEPS more."""

    ids: Tensor  # int64 [b, n + STEPS]
    said: Tensor  # bool [b, n + STEPS], tokens that a model said
    there: Tensor  # bool [b, n + STEPS], no padding
    taps: Tensor  # float32 [b, n, taps * hidden]
    last: Tensor  # float32 [b, n + STEPS, hidden]
    norm: Tensor  # float32 [b, n + STEPS]
    top: Tensor  # int64 [b, n + STEPS]

    @property
    def rows(self) -> int:
        """Rows of a step; the last token has no row, since none follows it."""
        return self.taps.shape[1] - 1


@dataclass(frozen=True, slots=True)
class Guess:
    """What the head says at one step's rows and what the target said, where a model goes on.

    No draft ever stands for the template's words or a user's. A sequence in which no model says
    anything is text like any other: all its rows are here.
    """

    at: Tensor  # int64 [r], flat place of the token read, in [b, n + STEPS]
    first: Tensor  # int64 [r], flat place of the row, in [b, rows]
    logits: Tensor  # float32 [r, D]
    truth: Tensor  # float32 [r, D], log of the target's whole law; what is outside D is left out


def stack(lessons: Sequence[Stored], device: torch.device) -> Batch:
    """Put sequences side by side, with padding after each."""
    longest = max(len(lesson.ids) for lesson in lessons)

    def side_by_side(name: str, more: int, dtype: torch.dtype) -> Tensor:
        first: Tensor = getattr(lessons[0], name)
        out = torch.zeros(len(lessons), longest + more, *first.shape[1:], dtype=dtype)
        for row, lesson in enumerate(lessons):
            out[row, : len(lesson.ids)] = getattr(lesson, name)
        return out.to(device)

    there = torch.zeros(len(lessons), longest + STEPS, dtype=torch.bool)
    for row, lesson in enumerate(lessons):
        there[row, : len(lesson.ids)] = True
    return Batch(
        ids=side_by_side("ids", STEPS, torch.int64),
        said=side_by_side("said", STEPS, torch.bool),
        there=there.to(device),
        taps=side_by_side("taps", 0, torch.float32),
        last=side_by_side("last", STEPS, torch.float32),
        norm=side_by_side("norm", STEPS, torch.float32),
        top=side_by_side("top", STEPS, torch.int64),
    )


def unroll(head: DraftHead, ends: Ends, batch: Batch, steps: int = STEPS) -> list[Guess]:
    """The first `steps` steps of a batch, at most STEPS."""
    rows, width = batch.rows, batch.ids.shape[1]
    embedded = ends.embed[batch.ids[:, 1 : rows + steps]].float()
    outs = head(batch.taps[:, :rows], embedded, steps)
    with torch.no_grad(), torch.autocast(ends.rows.device.type, enabled=False):
        truth = (batch.last @ ends.rows.T).sub_(batch.norm[..., None]).flatten(0, 1)
    said = batch.said | ~batch.said.any(1, keepdim=True)
    followed = batch.there & F.pad(said[:, 1:] & batch.there[:, 1:], (0, 1))
    guesses = []
    for step, out in enumerate(outs):
        first = followed[:, 1 + step : 1 + step + rows].flatten().nonzero()[:, 0]
        at = first // rows * width + first % rows + 1 + step
        logits = (out.flatten(0, 1)[first] @ ends.rows.T).float()
        guesses.append(Guess(at, first, logits, truth[at]))
    return guesses
