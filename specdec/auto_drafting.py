"""Loads several drafts for one target, as many as fit and are here: what `--draft auto` means.

Knows options, loaders and memory; nothing of who drafts in a round (`drafters/length.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from specdec.depot import Depot, free_bytes
from specdec.draft_form import draft_form
from specdec.drafters.auto import AutoDrafter
from specdec.drafters.base import Drafter
from specdec.drafters.ngram import NgramDrafter
from specdec.errors import PairError, SpecdecError
from specdec.ground import NO_FORM, Drafting, Ground, open_store
from specdec.memory import need_bytes
from specdec.pair import Choice, DraftOption
from specdec.pairing import AUTO, EARLY, NGRAM, NONE

MOST = 2
"""Drafts loaded beside n-grams: each takes memory, a load, and rounds in which it is looked at."""

ROW = DraftOption(
    AUTO,
    "several at once",
    "possible",
    "those that are here, each in turn, and mostly the one that gives most tokens a second",
    None,
    True,
)
"""How the list of candidates shows it where it was not asked for."""

Options = tuple[DraftOption, ...]
Rank = Callable[[int, Mapping[str, SpecdecError]], Options]
"""Free bytes and failures so far -> every candidate with its verdict."""
Make = Callable[[DraftOption, Options], Drafting]

_log = logging.getLogger(__name__)


def load_auto(depot: Depot, ground: Ground, rank: Rank, make: Make) -> Drafting:
    """The best `MOST` drafts that are on disk, fit together and are predicted to pay, and n-grams.

    Nothing is fetched. One that cannot be loaded is left out, with a notice. What is loaded counts
    in the fit of the next. Raises SpecdecError only where the load was cancelled.
    """
    device = ground.where.device
    start, needs = free_bytes(device), 0
    made: dict[str, Drafting] = {}
    known: dict[str, DraftOption] = {}
    failed: dict[str, SpecdecError] = {}
    while True:
        # buffers are allocated but not written yet, so what is free now may be too much
        options = rank(min(free_bytes(device), start - needs), failed)
        reads = any(drafting.drafter.wants_hidden for drafting in made.values())
        able = (o for o in options if o.id not in made and o.id not in failed)
        option = next((o for o in able if _may_join(o, reads)), None)
        if option is None or len(made) == MOST:
            break
        try:
            drafting = make(option, options)
            if reads and drafting.drafter.wants_hidden:
                raise PairError(
                    f"{option.name} reads the target's layers, and so does another of auto's.",
                    "Name it alone with --draft.",
                )
        except SpecdecError as error:
            if depot.cancelled:
                raise
            _log.info("auto does without %s: %s", option.id, error)
            failed[option.id] = error
            continue
        made[option.id] = drafting
        known[option.id] = replace(option, reason=drafting.choice.reason)
        needs += _need(depot, ground, option.id)
    said = tuple(f"auto does without {name}: {error}" for name, error in failed.items())
    choice = Choice(AUTO, _reason(tuple(made)))
    joined = _joined(made) if made else _copies(depot, ground)
    return replace(
        joined,
        choice=choice,
        options=_listed(options, known, failed, choice),
        notices=(*said, *joined.notices),
    )


def _copies(depot: Depot, ground: Ground) -> Drafting:
    """N-grams alone."""
    store = open_store(depot, ground)
    return Drafting(NgramDrafter(store), Choice(AUTO, ""), store=store)


def _joined(made: Mapping[str, Drafting]) -> Drafting:
    """One drafter of all their models, and one lookup for the copies of all."""
    store = next((drafting.store for drafting in made.values() if drafting.store), None)
    models = [model for drafting in made.values() for model in _models(drafting.drafter)]
    forms = {name: drafting.dtype for name, drafting in made.items() if drafting.dtype != NO_FORM}
    return Drafting(
        AutoDrafter(AUTO, models, NgramDrafter(store)),
        Choice(AUTO, ""),
        Choice(
            ", ".join(dict.fromkeys(form.value for form in forms.values())),
            "; ".join(f"{name}: {form.reason}" for name, form in forms.items()),
        )
        if forms
        else NO_FORM,
        notices=tuple(dict.fromkeys(text for one in made.values() for text in one.notices)),
        store=store,
        members={n: cost for drafting in made.values() for n, cost in drafting.costs.items()},
    )


def _models(drafter: Drafter) -> Sequence[Drafter]:
    """Without the copies that every loaded draft brings along."""
    return drafter.models if isinstance(drafter, AutoDrafter) else (drafter,)


def _may_join(option: DraftOption, reads: bool) -> bool:
    """Whether it can be loaded here; `reads`: another reads the target's layers already."""
    here = option.on_disk and option.id not in (NGRAM, NONE, AUTO)
    second = reads and option.id == EARLY
    return here and not second and option.usable and option.verdict != "rejected"


def _need(depot: Depot, ground: Ground, name: str) -> int:
    """Bytes that a draft takes when its buffers are full; 0 where that is not known."""
    form = draft_form(depot.options.draft_dtype, ground.where)
    entry = next((entry for entry in depot.registry if entry.id == name), None)
    return (need_bytes(entry, form, ground.context, draft=True) or 0) if entry else 0


def _reason(names: tuple[str, ...]) -> str:
    if not names:
        return "asked for; no other draft is here, fits and is predicted to pay, so n-gram alone"
    return f"asked for; n-gram, {' and '.join(names)} compete for most tokens a second"


def _listed(
    options: Options,
    members: Mapping[str, DraftOption],
    failed: Mapping[str, SpecdecError],
    choice: Choice,
) -> Options:
    """The candidates, with "auto" chosen, its members told, and why others could not be loaded."""

    def told(option: DraftOption) -> DraftOption:
        if option.id == AUTO:
            return replace(option, verdict="chosen", reason=choice.reason)
        if option.id in members:
            reason = f"one of auto's; {members[option.id].reason}"
            return replace(members[option.id], verdict="possible", reason=reason)
        if option.id in failed:
            return replace(option, verdict="rejected", reason=failed[option.id].message)
        return replace(option, verdict="rejected" if option.verdict == "rejected" else "possible")

    return tuple(told(option) for option in options)
