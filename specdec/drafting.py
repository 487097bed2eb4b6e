"""Chooses the draft for a loaded target, fetches and loads it, and says why.

Knows pairing, files and drafters; nothing of turns or requests.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from specdec import forms, memory, pairing
from specdec.auto_drafting import ROW, load_auto
from specdec.checkpoint import read_config
from specdec.depot import Depot, free_bytes, memory_form
from specdec.draft_form import draft_form
from specdec.draft_model import load_model_draft, no_rewind
from specdec.drafters.ngram import NgramDrafter
from specdec.drafters.none import NoDrafter
from specdec.early_drafting import load_early_exit, no_early_exit
from specdec.errors import PairError, SpecdecError
from specdec.ground import Drafting, Ground, open_store
from specdec.head_drafting import load_head_draft, no_states
from specdec.own_layers import own_layers_option
from specdec.pair import Choice, DraftOption
from specdec.translated_draft import load_translated_draft

_log = logging.getLogger(__name__)


def choose_draft(depot: Depot, ground: Ground, wanted: str | None) -> Drafting:
    """The draft asked for ("auto": several), or the best that fits and is predicted to pay.

    One that was not asked for and cannot be had gives way to the next, with a notice. Raises
    UnknownModelError, or a SpecdecError for one that was asked for and cannot draft here.
    """
    failed: dict[str, SpecdecError] = {}
    why_not = no_rewind(ground.model, ground.vocab, ground.context)
    if wanted == pairing.AUTO and not why_not:
        return load_auto(
            depot,
            ground,
            lambda free, failed: _rank(depot, ground, None, failed, free),
            lambda chosen, options: _make(depot, ground, chosen, options),
        )
    while True:
        options = _rank(depot, ground, wanted, failed, free_bytes(ground.where.device))
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
        store = open_store(depot, ground)
        return Drafting(NgramDrafter(store), choice, options=options, store=store)
    if chosen.id == pairing.EARLY:
        return load_early_exit(depot, ground, choice, options)
    files = depot.ready(depot.registry.get(chosen.id))
    if chosen.translated:
        return load_translated_draft(depot, ground, files, choice, options)
    load = load_head_draft if "head" in files.entry.roles else load_model_draft
    return load(depot, ground, files, choice, options)


def _rank(
    depot: Depot,
    ground: Ground,
    wanted: str | None,
    failed: Mapping[str, SpecdecError],
    free: int,
) -> tuple[DraftOption, ...]:
    """Every candidate with its verdict; exactly one is chosen, and it is none of the `failed`."""
    target, where = ground.files.entry, ground.where
    candidates = depot.registry.drafts_for(target)
    candidates += [  # never fetched unasked: none of them is chosen unasked
        entry for entry in depot.registry.strangers_for(target) if depot.store.locate(entry)
    ]
    name = wanted
    if wanted is not None and wanted not in pairing.WITHOUT_FILES:
        entry = depot.registry.get(wanted)
        candidates, name = [*candidates, entry], entry.id
    why = no_states(ground.model)
    heads = [entry for entry in candidates if why and "head" in entry.roles]
    options = pairing.rank_drafts(
        target,
        [entry for entry in candidates if entry.id not in failed and entry not in heads],
        depot.store,
        free,
        target_form=_target_form(depot, ground),
        draft_form=draft_form(depot.options.draft_dtype, where),
        context=ground.context,
        target_loaded=True,
        hub_reachable=depot.hub_reachable,
    )
    barred = [DraftOption(entry.id, entry.name, "rejected", why, usable=False) for entry in heads]
    if own := own_layers_option(read_config(ground.files.folder)):
        barred.append(own)
    early = pairing.early_option(no_early_exit(ground.model))
    options = (*options[:-2], *barred, ROW, early, *options[-2:])
    if name is not None:
        return _asked_for(options, name)
    gone = [
        DraftOption(entry.id, entry.name, "rejected", failed[entry.id].message)
        for entry in candidates
        if entry.id in failed
    ]
    last = len(pairing.WITHOUT_FILES)
    return (*options[:-last], *gone, *options[-last:])


def _none_but(options: tuple[DraftOption, ...], why_not: str) -> tuple[DraftOption, ...]:
    """No candidate can draft for this target, whichever it is; "none" is chosen."""
    return tuple(
        replace(option, verdict="chosen", reason=why_not)
        if option.id == pairing.NONE
        else replace(option, verdict="rejected", reason=why_not, usable=False)
        for option in options
    )


def _asked_for(options: tuple[DraftOption, ...], name: str) -> tuple[DraftOption, ...]:
    """The user's own choice: it need not be predicted to pay, but must be able to draft here."""
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
