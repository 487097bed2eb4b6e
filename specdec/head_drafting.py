"""Loads a trained head for a loaded target and times it, or says why the target cannot have one.

Knows files, the head and a clock; nothing of how drafts are ranked, or of turns.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import torch

from specdec.drafters.head import HeadDrafter
from specdec.errors import DeviceError, PairError
from specdec.heads.reader import load_head
from specdec.heads.runner import HeadRunner
from specdec.heads.states import States
from specdec.linear import Form
from specdec.loading import Model
from specdec.selftest import check_finite
from specdec.target import recorder_of

_REPEATS = 8


@dataclass(frozen=True, slots=True)
class LoadedHead:
    """A drafter, what a drafted token takes, and what reading one of a chunk takes, in seconds."""

    drafter: HeadDrafter
    seconds: float
    reading: float


def no_states(model: Model) -> str:
    """Why this target's hidden states cannot be had; "" when they can."""
    if model.weights is None:
        return "the target runs through transformers, which hands out no states here"
    if recorder_of(model.device) is not None:
        return f"on {model.device.type} calls are captured, and those hand out no states yet"
    return ""


def open_head(
    folder: Path,
    model: Model,
    dtype: torch.dtype,
    form: Form,
    name: str,
    vocab: int,
    context: int,
    ends: frozenset[int],
) -> LoadedHead:
    """Raises LoadError for files that are no head of this target, PairError for what cannot run."""
    if (why := no_states(model)) or model.weights is None:
        raise PairError(f"{name} cannot draft: {why}.", "Choose another draft.")
    head = load_head(folder, model.weights, dtype, form)
    layers = head.shape.states_of(model.layers)
    runner = HeadRunner(head, context, vocab)
    states = torch.zeros(runner.chunk, len(layers) * model.hidden, dtype=model.dtype)
    seconds, reading = _times(runner, states.to(model.device)[: context - 2])
    return LoadedHead(HeadDrafter(runner, States(layers), name, ends), seconds, reading)


def _times(runner: HeadRunner, states: torch.Tensor) -> tuple[float, float]:
    """Seconds of a step and of reading a token, the least of a few; leaves the head empty.

    Raises PairError for one that computes no numbers: it would never be kept.
    """
    steps, reads = list[float](), list[float]()
    for _ in range(_REPEATS):
        runner.rewind(0, 0)
        began = perf_counter()
        runner.absorb(states)
        runner.fill([0] * (len(states) - 1))
        row = runner.read([0])
        row.sum().item()  # the device has finished
        read = perf_counter()
        row = runner.follow(0)
        row.sum().item()
        steps.append(perf_counter() - read)
        reads.append((read - began) / len(states))
    try:
        check_finite(row[None])
    except DeviceError as error:
        raise PairError(
            "This head cannot draft: it computes scores that are not numbers.",
            "Choose another draft, or another --draft-dtype.",
        ) from error
    runner.rewind(0, 0)
    return min(steps), min(reads)
