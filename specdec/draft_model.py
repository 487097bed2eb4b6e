"""Loads a smaller model as the draft of a loaded target, checks it and times a step of it.

Knows files, forms and a scorer; nothing of how drafts are ranked, or of turns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from specdec import device, measure
from specdec.depot import Depot, Files, memory_form
from specdec.draft_form import draft_form, why_form
from specdec.drafters.base import Drafter
from specdec.drafters.cascade import CascadeDrafter
from specdec.drafters.model import ModelDrafter
from specdec.drafters.ngram import NgramDrafter
from specdec.errors import DeviceError, PairError
from specdec.ground import Drafting, Ground, open_store
from specdec.loading import Model
from specdec.options import QUANTISED
from specdec.pair import Choice, DraftOption, Phase
from specdec.scorer import Scorer
from specdec.target import open_scorer, prepare
from specdec.tokenizer import end_ids

_READ = 16
"""Steps of the draft that reading may cost at once; what lies further back it does without."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A draft's model, ready: its scorer, seconds of a step and of reading a token, and its reach.

    `rows` is how many ids it can read, `form` what it really runs in and why, `notices` what the
    user should read.
    """

    scorer: Scorer
    rows: int
    seconds: float
    reading: float
    reach: int
    form: Choice
    notices: tuple[str, ...]


def load_model_draft(
    depot: Depot, ground: Ground, files: Files, choice: Choice, options: tuple[DraftOption, ...]
) -> Drafting:
    """Raises PairError for one that cannot draft here, LoadError for files that are no model."""
    opened = open_draft(depot, ground, files, ground.vocab)
    ends = end_ids(ground.files.folder, ground.tokenizer)
    drafter = ModelDrafter(opened.scorer, choice.value, ground.vocab, ends, opened.reach)
    return with_copies(depot, ground, opened, drafter, choice, options)


def with_copies(
    depot: Depot,
    ground: Ground,
    opened: Opened,
    drafter: Drafter,
    choice: Choice,
    options: tuple[DraftOption, ...],
) -> Drafting:
    """The drafter behind copies of what repeats, with what its model costs."""
    store = open_store(depot, ground)
    return Drafting(
        CascadeDrafter(drafter, NgramDrafter(store)),
        replace(choice, reason=f"{choice.reason}; copies what repeats (n-gram) first"),
        opened.form,
        opened.seconds,
        opened.reading,
        options,
        opened.notices,
        store,
    )


def open_draft(depot: Depot, ground: Ground, files: Files, vocab: int) -> Opened:
    """Load a draft of `vocab` tokens, check and time it. Raises as `load_model_draft` does."""
    form = draft_form(depot.options.draft_dtype, ground.where)
    if form == "int4" or form == "int8":
        model = depot.load(files, ground.where.device, torch.bfloat16, form)
    else:
        dtype = device.DTYPES[form]
        dense, _ = device.form_of(ground.where.device, dtype)
        model = depot.load(files, ground.where.device, dtype, dense)
    most = min(ground.context, model.context)
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
    return Opened(
        scorer,
        model.vocab,
        seconds,
        reading,
        max(2 * scorer.chunk, int(_READ * seconds / reading)),
        replace(kept, reason=f"{kept.reason}: {seconds * 1e3:.1f} ms a token"),
        tuple(text for text in (files.told, model.reason, *model.notes, eager) if text),
    )


def no_rewind(model: Model, vocab: int, context: int) -> str:
    """Why this model's cache cannot go back a token; "" when it can (DESIGN 7, 6).

    Asked at the real context: a sliding window is a limit only past its width.
    """
    if model.weights is not None:
        return ""
    probe = open_scorer(model, "fast", 1, context, vocab)
    return "" if probe.can_rewind else getattr(probe, "rewind_reason", "its cache has no way back")


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
