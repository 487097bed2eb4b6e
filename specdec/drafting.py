"""Chooses the draft for a loaded target, fetches and loads it, and says why.

Knows pairing, files and drafters; nothing of turns or requests.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from specdec import device, measure, memory, pairing
from specdec.depot import Depot, Files, free_bytes, memory_form
from specdec.device import DeviceChoice
from specdec.drafters.base import Drafter
from specdec.drafters.model import ModelDrafter
from specdec.drafters.ngram import NgramDrafter
from specdec.drafters.none import NoDrafter
from specdec.errors import PairError
from specdec.loading import Model
from specdec.pair import Choice, DraftOption, Phase
from specdec.target import open_scorer
from specdec.tokenizer import end_ids

_NO_FORM = Choice("-", "no weights")


@dataclass(frozen=True, slots=True)
class Drafting:
    """The drafter, why it was chosen, the seconds a drafted token takes, and all candidates."""

    drafter: Drafter
    choice: Choice
    dtype: Choice = _NO_FORM
    seconds: float = 0.0
    options: tuple[DraftOption, ...] = ()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ground:
    """What a draft must suit: the loaded target, its files and tokenizer, the place and width."""

    files: Files
    model: Model
    tokenizer: Any
    where: DeviceChoice
    context: int
    width: int


def choose_draft(depot: Depot, ground: Ground, wanted: str | None) -> Drafting:
    """The draft asked for, or the best that is compatible, fits and is predicted to pay.

    Raises UnknownModelError, or PairError for one that was asked for and cannot draft here.
    """
    options = _rank(depot, ground, wanted)
    chosen = next(option for option in options if option.verdict == "chosen")
    why_not = no_rewind(ground.model, len(ground.tokenizer), ground.context)
    if why_not:
        return Drafting(NoDrafter(), Choice(pairing.NONE, why_not), options=options)
    choice = Choice(chosen.id, chosen.reason)
    if chosen.id == pairing.NONE:
        return Drafting(NoDrafter(), choice, options=options)
    if chosen.id == pairing.NGRAM:
        return Drafting(NgramDrafter(), choice, options=options)
    return _load(depot, ground, choice, options)


def no_rewind(model: Model, vocab: int, context: int) -> str:
    """Why this model's cache cannot go back a token; "" when it can (DESIGN 7, 6).

    Asked at the real context: a sliding window is a limit only past its width.
    """
    if model.weights is not None:
        return ""
    probe = open_scorer(model, "fast", 1, context, vocab)
    return "" if probe.can_rewind else getattr(probe, "rewind_reason", "its cache has no way back")


def _rank(depot: Depot, ground: Ground, wanted: str | None) -> tuple[DraftOption, ...]:
    """Every candidate with its verdict; exactly one is chosen, and its files are here."""
    target, where = ground.files.entry, ground.where
    candidates = depot.registry.drafts_for(target)
    name = wanted
    if wanted is not None and wanted not in (pairing.NGRAM, pairing.NONE):
        entry = depot.registry.get(wanted)
        candidates, name = [*candidates, entry], entry.id
    while True:
        options = pairing.rank_drafts(
            target,
            candidates,
            depot.store,
            free_bytes(where.device),
            target_form=memory_form(where.dtype),
            draft_form=_form(depot, where),
            context=ground.context,
            target_loaded=True,
            hub_reachable=depot.hub_reachable,
        )
        if name is not None:
            options = _asked_for(options, name)
        chosen = next(option for option in options if option.verdict == "chosen")
        if chosen.on_disk:
            return options
        depot.ready(depot.registry.get(chosen.id))  # then its tokens can be compared


def _asked_for(options: tuple[DraftOption, ...], name: str) -> tuple[DraftOption, ...]:
    """The user's own choice: it need not be predicted to pay, but must mean the same tokens."""
    found = next(option for option in options if option.id == name)
    if not found.usable:
        raise PairError(
            f"{found.name} cannot draft for this target: {found.reason}.",
            "Choose another draft, ngram, or none.",
        )
    return tuple(
        replace(option, verdict="chosen", reason=f"asked for; {option.reason}")
        if option.id == name
        else replace(option, verdict="possible" if option.verdict == "chosen" else option.verdict)
        for option in options
    )


def _form(depot: Depot, where: DeviceChoice) -> memory.Form:
    """int4 on a CPU, where its steps are the shortest; elsewhere the target's dtype."""
    asked = depot.options.draft_dtype
    if asked is None:
        return "int4" if where.device.type == "cpu" else memory_form(where.dtype)
    return "int4" if asked == "int4" else memory_form(device.DTYPES[asked])


def _load(
    depot: Depot, ground: Ground, choice: Choice, options: tuple[DraftOption, ...]
) -> Drafting:
    files = depot.ready(depot.registry.get(choice.value))
    form = _form(depot, ground.where)
    dtype = torch.bfloat16 if form == "int4" else device.DTYPES[form]
    model = depot.load(files, ground.where.device, dtype, "int4" if form == "int4" else "dense")
    vocab = len(ground.tokenizer)
    if why_not := no_rewind(model, vocab, min(ground.context, model.context)):
        raise PairError(f"{files.entry.name} cannot draft: {why_not}.", "Choose another draft.")
    depot.show(Phase("measuring", files.entry.id, "a step of the draft"))
    most = min(ground.context, model.context)
    scorer = open_scorer(model, "fast", ground.width, most, vocab, exact=False)
    seconds = measure.step_seconds(scorer, [1])[1]
    return Drafting(
        ModelDrafter(scorer, choice.value, vocab, end_ids(ground.files.folder, ground.tokenizer)),
        choice,
        Choice("int4" if model.form == "int4" else memory_form(model.dtype), _why(depot, seconds)),
        seconds,
        options,
        tuple(text for text in (files.label, model.reason, *model.notes) if text),
    )


def _why(depot: Depot, seconds: float) -> str:
    asked = "asked for" if depot.options.draft_dtype else "the shortest step on this device"
    return f"{asked}: {seconds * 1e3:.1f} ms a token"
