"""Loads a trained head for a loaded target and times it, or says why the target cannot have one.

Knows files, the head and a clock; nothing of how drafts are ranked, or of turns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

import torch

from specdec import device
from specdec.depot import Depot, Files
from specdec.draft_form import draft_form, why_form
from specdec.drafters.cascade import CascadeDrafter
from specdec.drafters.head import HeadDrafter
from specdec.drafters.ngram import NgramDrafter
from specdec.errors import DeviceError, LoadError, PairError
from specdec.ground import Drafting, Ground, open_store
from specdec.heads.reader import load_head
from specdec.heads.runner import HeadRunner
from specdec.heads.states import States
from specdec.linear import Form
from specdec.loading import Model
from specdec.options import QUANTISED
from specdec.pair import Choice, DraftOption, Phase
from specdec.selftest import check_finite
from specdec.target import recorder_of
from specdec.tokenizer import end_ids

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


def load_head_draft(
    depot: Depot, ground: Ground, files: Files, choice: Choice, options: tuple[DraftOption, ...]
) -> Drafting:
    """Raises LoadError for files that are no head of this target, PairError for what cannot run."""
    asked, where = depot.options.draft_dtype, ground.where
    form = draft_form(asked, where)
    dtype = torch.bfloat16 if form in QUANTISED else device.DTYPES[form]
    matrices = form if form in ("int4", "int8") else device.form_of(where.device, dtype)[0]
    depot.show(Phase("measuring", files.entry.id, "a step of the head"))
    ends = end_ids(ground.files.folder, ground.tokenizer)
    made = open_head(
        files.folder,
        ground.model,
        dtype,
        matrices,
        choice.value,
        ground.vocab,
        ground.context,
        ends,
    )
    store = open_store(depot, ground)
    return Drafting(
        CascadeDrafter(made.drafter, NgramDrafter(store)),
        replace(choice, reason=f"{choice.reason}; copies what repeats (n-gram) first"),
        Choice(form, f"{why_form(asked, where, form)}: {made.seconds * 1e3:.1f} ms a token"),
        made.seconds,
        made.reading,
        options,
        (files.told,) if files.told else (),
        store,
    )


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
    if isinstance(head.embed, torch.Tensor) and len(head.embed) < vocab:
        raise LoadError(
            f"{name} knows {len(head.embed)} tokens; this target has {vocab}.",
            "Choose another draft.",
        )
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
