"""Which target, which draft, and why. Knows sizes, tokens and memory; no torch, no network itself.

A draft must fit beside the target and be predicted to pay; one of another tokenizer is possible
and never chosen unasked. Ranked by the bytes a step reads in the form it will run in: a step of a
small model is memory traffic.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from specdec import token_table, tokens
from specdec.errors import LoadError, SourceError
from specdec.memory import Fit, Form, fits, need_bytes, size_text, step_bytes
from specdec.pair import Choice, DraftOption, ModelInfo, Verdict
from specdec.registry import Entry, Registry
from specdec.sources import Store

NGRAM, EARLY, NONE, AUTO = "ngram", "early-exit", "none", "auto"

WITHOUT_FILES = (NGRAM, EARLY, NONE, AUTO)
"""Drafts that may be named beside models. "auto" is several of them at once."""

LIMIT = 0.5
"""A draft whose step reads more than this share of the target's bytes is rejected: even with half
of four drafts kept, four such steps cost two scoring passes and win about two tokens."""

CONTEXT = 4096
"""Tokens of KV buffer counted when a choice is made before the real context is known."""

COMFORT = {"cuda": 0.75}
SHARED_COMFORT = 0.5
"""A first start picks a target that needs at most this share of what is free; less where other
programs share the memory."""

CPU_STEP = 2_500_000_000
"""On a CPU also at most this many bytes a step: about 20 GB/s of memory is 8 tokens a second."""


def compatible(target: Path, draft: Path) -> Choice:
    """Compare the tokens of two model folders: value "yes" or "no", and the reason.

    Raises LoadError when a tokenizer.json cannot be read.
    """
    verdict = tokens.compare(target, draft)
    return Choice("yes" if verdict.same else "no", verdict.reason)


def rank_drafts(
    target: Entry,
    candidates: Iterable[Entry],
    store: Store,
    free_bytes: int,
    *,
    target_form: Form = "bf16",
    draft_form: Form = "int4",
    context: int = CONTEXT,
    target_loaded: bool = False,
    hub_reachable: bool = False,
) -> tuple[DraftOption, ...]:
    """Every candidate with a verdict and its reason, best first, then "ngram" and "none".

    Exactly one is "chosen". `free_bytes` is what is free now; `target_loaded` says the target's
    own need is already taken out of it. One not on disk is chosen only where it can be fetched
    without asking: from a reachable hub, or from a package when the target is one the user opted
    into; a head only where size and revision are known. Files decide over sizes in the registry.
    """
    own = 0 if target_loaded else need_bytes(target, target_form, context) or 0
    known = {entry.id: entry for entry in candidates}
    judged = [
        _judge(target, entry, store, free_bytes - own, target_form, draft_form, context)
        for entry in known.values()
    ]
    judged.sort(key=lambda option: _order(option, known[option.id].family == target.family))
    opted_in = target.packaged is not None and target.packaged.opt_in
    pick = next(
        (
            option.id
            for option in judged
            if option.verdict == "possible"
            and not option.translated
            and (option.on_disk or _free_to_fetch(known[option.id], hub_reachable, opted_in, store))
        ),
        NGRAM,
    )
    ngram = DraftOption(NGRAM, "n-gram over prompt and reply", "possible", "costs nothing", 0, True)
    none = DraftOption(NONE, "no draft", "possible", "plain decoding", 0, True)
    return tuple(_mark(option, pick) for option in (*judged, ngram, none))


def early_option(why_not: str) -> DraftOption:
    """Leaving the target early, never chosen unasked; `why_not` says why it cannot be, or ""."""
    name = "the target's own first layers"
    if why_not:
        return DraftOption(EARLY, name, "rejected", why_not, usable=False)
    return DraftOption(
        EARLY,
        name,
        "possible",
        "for models trained to be left early, others rarely gain",
        on_disk=True,
    )


def _judge(
    target: Entry,
    draft: Entry,
    store: Store,
    free: int,
    target_form: Form,
    draft_form: Form,
    context: int,
) -> DraftOption:
    folder, target_folder = store.locate(draft), store.locate(target)
    reads, base = step_bytes(draft, draft_form), step_bytes(target, target_form)
    on_disk = folder is not None

    def option(ok: bool, reason: str, usable: bool = False) -> DraftOption:
        verdict: Verdict = "possible" if ok else "rejected"
        usable = ok or usable
        return DraftOption(draft.id, draft.name, verdict, reason, reads, on_disk, usable, other)

    said, other = "tokens not compared yet", False
    if "head" in draft.roles:
        said = _trained_for(draft, target)
        if not said.startswith("trained"):
            return option(False, said, usable=on_disk)
        if not on_disk and (lacks := _unknown(draft)):
            said += f"; not fetched unless asked for: {lacks}"
    elif folder is not None and target_folder is not None:
        ok, said, other = _compared(target_folder, folder, store.data_dir)
        if not ok:
            return option(False, said)
    fit: Fit = fits(need_bytes(draft, draft_form, context, draft=True), free)
    if fit.ok is False:
        return option(False, fit.reason)
    if reads is not None and base:
        share = reads / base
        cost = f"its step reads {share:.0%} of the target's bytes"
        if share > LIMIT:
            told = f"; {said}" if other else ""
            return option(False, f"{cost}, more than {LIMIT:.0%}{told}", usable=True)
        said = f"{cost} ({size_text(reads)}); {said}"
    if draft.context is not None and target.context is not None and draft.context < target.context:
        said += f"; drafts up to its own context of {draft.context} tokens"  # A37
    return option(True, said)


def _compared(target: Path, draft: Path, data_dir: Path) -> tuple[bool, str, bool]:
    """Whether the draft's tokens will do, in words, and whether they are another tokenizer's."""
    try:
        verdict = tokens.compare(target, draft)
    except LoadError as error:
        return False, error.message, False
    if verdict.same:
        return True, verdict.reason, False
    try:
        table = token_table.open_table(target, draft, data_dir)
    except LoadError as error:
        return False, f"{verdict.reason}, and they cannot be translated: {error.message}", False
    if not table.words:
        return False, f"{verdict.reason}, and none of its tokens is the target's", False
    share = f"another tokenizer: {table.share:.0%} of its tokens are the target's too"
    return True, share, True


def _trained_for(head: Entry, target: Entry) -> str:
    """What is known of a head's target; whether their widths agree is seen when it is loaded."""
    if head.trained_for is None:
        return "a head, whose config does not say for which target"
    if head.trained_for.lower() in (target.id.lower(), (target.repo or "").lower()):
        return "trained for this target"
    return f"a head for {head.trained_for}"


def _unknown(head: Entry) -> str:
    """What the registry does not know of a head on the hub: how much it is, or what it is."""
    facts = {"its size is not known": head.bytes, "no revision is pinned": head.revision}
    return " and ".join(text for text, fact in facts.items() if head.repo and fact is None)


def _order(option: DraftOption, same_family: bool) -> tuple[bool, bool, float, bool]:
    reads = float("inf") if option.bytes_per_step is None else option.bytes_per_step
    return option.verdict == "rejected", option.translated, reads, not same_family


def _free_to_fetch(entry: Entry, hub_reachable: bool, opted_in: bool, store: Store) -> bool:
    if store.offline or ("head" in entry.roles and _unknown(entry)):
        return False
    if hub_reachable and entry.repo:
        return entry.gated is not True
    return entry.packaged is not None and (opted_in or not entry.packaged.opt_in)


def _mark(option: DraftOption, pick: str) -> DraftOption:
    if option.id != pick:
        return option
    reason = option.reason
    if pick == NGRAM:
        reason = f"{reason}; no model draft fits, pays and is here"
    return replace(option, verdict="chosen", reason=reason)


def pick_target(
    registry: Registry, store: Store, device_kind: str, free_bytes: int, hub_reachable: bool
) -> Choice:
    """The target of a first start: the largest `suggested` one that is comfortable.

    Comfortable: at most the `COMFORT` share of free memory with its KV buffer, and on a CPU at
    most `CPU_STEP` bytes a step. It must be here, on a reachable hub and not gated, or packaged and
    not opt-in. So without a hub a bare machine gets SmolLM2 135M.
    """
    limit = COMFORT.get(device_kind, SHARED_COMFORT) * free_bytes
    best: tuple[int, Entry] | None = None
    smallest: tuple[int, Entry] | None = None
    for entry in registry.targets():
        need = need_bytes(entry, "bf16", CONTEXT)
        if not entry.suggested or need is None or not _can_have(entry, store, hub_reachable):
            continue
        if smallest is None or need < smallest[0]:
            smallest = (need, entry)
        slow = device_kind == "cpu" and (step_bytes(entry, "bf16") or 0) > CPU_STEP
        if need <= limit and not slow and (best is None or need > best[0]):
            best = (need, entry)
    chosen = best or smallest
    if chosen is None:
        raise SourceError(
            "There is no model on this machine, and it may not be fetched.",
            "Start once without --offline, or name a local folder with --target.",
        )
    need, entry = chosen
    where = "on disk" if store.locate(entry) else "from the hub" if hub_reachable else "packaged"
    why = "the largest that is comfortable on" if best else "the smallest, though tight, for"
    return Choice(
        entry.id,
        f"{why} this {device_kind} ({where}): needs {size_text(need)}, {size_text(free_bytes)}"
        " free",
    )


def _can_have(entry: Entry, store: Store, hub_reachable: bool) -> bool:
    if store.locate(entry) is not None:
        return True
    if store.offline:
        return False
    if hub_reachable and entry.repo and entry.gated is not True:
        return True
    return entry.packaged is not None and not entry.packaged.opt_in


def model_rows(
    registry: Registry, store: Store, free_bytes: int, form: Form = "bf16", context: int = CONTEXT
) -> list[ModelInfo]:
    """Every entry as the page and the terminal show it."""
    return [_row(entry, store, free_bytes, form, context) for entry in registry]


def _row(entry: Entry, store: Store, free: int, form: Form, context: int) -> ModelInfo:
    fit = fits(need_bytes(entry, form, context), free)
    shape = entry.shape
    exact = shape.parameters if shape and shape.tied is not None else None
    return ModelInfo(
        id=entry.id,
        name=entry.name,
        family=entry.family,
        roles=entry.roles,
        parameters=entry.parameters or exact,
        bytes=entry.bytes,
        licence=entry.licence,
        context=entry.context,
        on_disk=store.locate(entry) is not None,
        source=store.source(entry),
        fits=Choice({True: "yes", False: "no", None: "unknown"}[fit.ok], fit.reason),
        verified=entry.verified or store.pins.get(entry.id) is not None,
        gated=entry.gated,
    )
