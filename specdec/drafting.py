"""Chooses the draft for a loaded target, fetches and loads it, and says why.

Knows pairing, files and drafters; nothing of turns or requests.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from specdec import device, forms, measure, memory, pairing
from specdec.depot import Depot, Files, free_bytes, memory_form
from specdec.device import DeviceChoice
from specdec.draft_form import draft_form, why_form
from specdec.drafters.base import Drafter
from specdec.drafters.cascade import CascadeDrafter
from specdec.drafters.model import ModelDrafter
from specdec.drafters.ngram import NgramDrafter
from specdec.drafters.none import NoDrafter
from specdec.drafters.store import ReplyStore
from specdec.drafters.store_file import folder_of
from specdec.errors import DeviceError, PairError, SpecdecError
from specdec.folder import fingerprint
from specdec.head_drafting import no_states, open_head
from specdec.loading import Model
from specdec.options import QUANTISED
from specdec.pair import Choice, DraftOption, Phase
from specdec.scorer import Scorer
from specdec.target import open_scorer, prepare
from specdec.tokenizer import end_ids

_log = logging.getLogger(__name__)

_READ = 16
"""Steps of the draft that reading may cost at once; what lies further back it does without."""

_NO_FORM = Choice("-", "no weights")


@dataclass(frozen=True, slots=True)
class Drafting:
    """The drafter, why it was chosen, and all candidates.

    `seconds` is what a drafted token takes, `reading` what one of a chunk takes to be read. `store`
    is what its copies may come from beside the conversation, once it is lent.
    """

    drafter: Drafter
    choice: Choice
    dtype: Choice = _NO_FORM
    seconds: float = 0.0
    reading: float = 0.0
    options: tuple[DraftOption, ...] = ()
    notices: tuple[str, ...] = ()
    store: ReplyStore | None = None


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

    One that was not asked for and cannot be had gives way to the next, with a notice. Raises
    UnknownModelError, or a SpecdecError for one that was asked for and cannot draft here.
    """
    failed: dict[str, SpecdecError] = {}
    why_not = no_rewind(ground.model, len(ground.tokenizer), ground.context)
    while True:
        options = _rank(depot, ground, wanted, failed)
        if why_not:  # then nothing is fetched, nor loaded
            choice = Choice(pairing.NONE, why_not)
            return Drafting(NoDrafter(), choice, options=_none_but(options, why_not))
        chosen = next(option for option in options if option.verdict == "chosen")
        try:
            if not chosen.on_disk:
                depot.ready(depot.registry.get(chosen.id))  # then its tokens can be compared
                continue
            made = _make(depot, ground, chosen, options)
        except SpecdecError as error:
            if wanted is not None or depot.cancelled:
                raise
            _log.info("the draft %s cannot be had: %s", chosen.id, error)
            failed[chosen.id] = error
            continue
        told = tuple(
            f"{depot.registry.get(i).name} cannot draft now: {e}" for i, e in failed.items()
        )
        return replace(made, notices=(*told, *made.notices))


def _make(
    depot: Depot, ground: Ground, chosen: DraftOption, options: tuple[DraftOption, ...]
) -> Drafting:
    choice = Choice(chosen.id, chosen.reason)
    if chosen.id == pairing.NONE:
        return Drafting(NoDrafter(), choice, options=options)
    if chosen.id == pairing.NGRAM:
        store = _store(depot, ground)
        return Drafting(NgramDrafter(store), choice, options=options, store=store)
    return _load(depot, ground, choice, options)


def no_rewind(model: Model, vocab: int, context: int) -> str:
    """Why this model's cache cannot go back a token; "" when it can (DESIGN 7, 6).

    Asked at the real context: a sliding window is a limit only past its width.
    """
    if model.weights is not None:
        return ""
    probe = open_scorer(model, "fast", 1, context, vocab)
    return "" if probe.can_rewind else getattr(probe, "rewind_reason", "its cache has no way back")


def _rank(
    depot: Depot, ground: Ground, wanted: str | None, failed: Mapping[str, SpecdecError]
) -> tuple[DraftOption, ...]:
    """Every candidate with its verdict; exactly one is chosen, and it is none of the `failed`."""
    target, where = ground.files.entry, ground.where
    candidates = depot.registry.drafts_for(target)
    name = wanted
    if wanted is not None and wanted not in (pairing.NGRAM, pairing.NONE):
        entry = depot.registry.get(wanted)
        candidates, name = [*candidates, entry], entry.id
    why = no_states(ground.model)
    heads = [entry for entry in candidates if why and "head" in entry.roles]
    options = pairing.rank_drafts(
        target,
        [entry for entry in candidates if entry.id not in failed and entry not in heads],
        depot.store,
        free_bytes(where.device),
        target_form=_target_form(depot, ground),
        draft_form=draft_form(depot.options.draft_dtype, where),
        context=ground.context,
        target_loaded=True,
        hub_reachable=depot.hub_reachable,
    )
    barred = [DraftOption(entry.id, entry.name, "rejected", why, usable=False) for entry in heads]
    options = (*options[:-2], *barred, *options[-2:])
    if name is not None:
        return _asked_for(options, name)
    gone = [
        DraftOption(entry.id, entry.name, "rejected", failed[entry.id].message)
        for entry in candidates
        if entry.id in failed
    ]
    return (*options[:-2], *gone, *options[-2:])  # ngram and none stand last


def _none_but(options: tuple[DraftOption, ...], why_not: str) -> tuple[DraftOption, ...]:
    """No candidate can draft for this target, whichever it is; "none" is chosen."""
    return tuple(
        replace(option, verdict="chosen", reason=why_not)
        if option.id == pairing.NONE
        else replace(option, verdict="rejected", reason=why_not, usable=False)
        for option in options
    )


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


def _target_form(depot: Depot, ground: Ground) -> memory.Form:
    if ground.model.quantised is None:
        return memory_form(ground.where.dtype)
    return forms.target_form(ground.files, ground.where, depot.options.weights)


def _load(
    depot: Depot, ground: Ground, choice: Choice, options: tuple[DraftOption, ...]
) -> Drafting:
    files = depot.ready(depot.registry.get(choice.value))
    form = draft_form(depot.options.draft_dtype, ground.where)
    if "head" in files.entry.roles:
        return _load_head(depot, ground, files, choice, options)
    if form == "int4" or form == "int8":
        model = depot.load(files, ground.where.device, torch.bfloat16, form)
    else:
        dtype = device.DTYPES[form]
        dense, _ = device.form_of(ground.where.device, dtype)
        model = depot.load(files, ground.where.device, dtype, dense)
    vocab, most = len(ground.tokenizer), min(ground.context, model.context)
    if why_not := no_rewind(model, vocab, most):
        raise PairError(f"{files.entry.name} cannot draft: {why_not}.", "Choose another draft.")
    depot.show(Phase("measuring", files.entry.id, "a step of the draft"))
    scorer = open_scorer(model, "fast", ground.width, most, vocab, exact=False)
    _check(scorer, files.entry.name)
    eager = _capture(depot, files, scorer)
    seconds = measure.step_seconds(scorer, [1], repeats=8)[1]
    reading = measure.reading_seconds(scorer)
    real = model.form if model.form in QUANTISED else memory_form(model.dtype)
    kept = model.quantised or Choice(real, why_form(depot.options.draft_dtype, ground.where, real))
    ends = end_ids(ground.files.folder, ground.tokenizer)
    reach = max(2 * scorer.chunk, int(_READ * seconds / reading))
    drafter = ModelDrafter(scorer, choice.value, vocab, ends, reach)
    store = _store(depot, ground)
    return Drafting(
        CascadeDrafter(drafter, NgramDrafter(store)),
        replace(choice, reason=f"{choice.reason}; copies what repeats (n-gram) first"),
        replace(kept, reason=f"{kept.reason}: {seconds * 1e3:.1f} ms a token"),
        seconds,
        reading,
        options,
        tuple(text for text in (files.label, model.reason, *model.notes, eager) if text),
        store,
    )


def _load_head(
    depot: Depot, ground: Ground, files: Files, choice: Choice, options: tuple[DraftOption, ...]
) -> Drafting:
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
        len(ground.tokenizer),
        ground.context,
        ends,
    )
    store = _store(depot, ground)
    return Drafting(
        CascadeDrafter(made.drafter, NgramDrafter(store)),
        replace(choice, reason=f"{choice.reason}; copies what repeats (n-gram) first"),
        Choice(form, f"{why_form(asked, where, form)}: {made.seconds * 1e3:.1f} ms a token"),
        made.seconds,
        made.reading,
        options,
        (files.label,) if files.label else (),
        store,
    )


def _store(depot: Depot, ground: Ground) -> ReplyStore | None:
    """Earlier replies in the target's own tokens; None where none may be kept."""
    if not depot.options.ngram_store:
        return None
    folder = folder_of(depot.options.data_dir)
    return ReplyStore(folder, fingerprint(ground.files.folder), len(ground.tokenizer))


def _capture(depot: Depot, files: Files, scorer: Scorer) -> str:
    """Capture the draft's calls where the device can; why not all of them, or ""."""

    def told(done: int, total: int) -> None:
        depot.show(Phase("measuring", files.entry.id, "capturing calls", done, total))

    choice = prepare(scorer, told)
    if choice is None or choice.value == "captured":
        return ""
    return f"The draft's calls are {choice.value}: {choice.reason}."


def _check(scorer: Scorer, name: str) -> None:
    """One step. Raises PairError for a draft that computes no numbers: it would never be kept."""
    try:
        measure.check_finite(scorer.score([0]))
    except DeviceError as error:
        raise PairError(
            f"{name} cannot draft: it computes scores that are not numbers.",
            "Choose another draft, or another --draft-dtype.",
        ) from error
    scorer.rewind(0)
