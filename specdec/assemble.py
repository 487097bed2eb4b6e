"""A target and a draft, by name -> a session ready to reply, with a reason for every choice.

The order of a load. Knows nothing of turns or conversations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from specdec import device, forms, measure, memory, pairing, quantised
from specdec.depot import Depot, Files, Show, free_bytes
from specdec.device import DeviceChoice
from specdec.drafters.length import FixedLength, Lengths
from specdec.drafters.plan import Length
from specdec.drafting import choose_draft
from specdec.errors import EngineError, FitError
from specdec.ground import Drafting, Ground, known_ids
from specdec.loading import check_packed
from specdec.measure import RunnerChoice
from specdec.options import EngineOptions
from specdec.pair import Choice, Pair, Phase
from specdec.pair_facts import memory_of, pace_of
from specdec.prompt import PromptBuilder
from specdec.registry import Entry
from specdec.request import MAX_K, Runner
from specdec.scorer import Scorer
from specdec.session import Session
from specdec.target import Kind, open_scorer, prepare, recorder_of
from specdec.tokenizer import Decode, end_ids, load_tokenizer

WIDTH = MAX_K + 1
"""Rows of a scoring call: the draft and one more."""

CONTEXT = 8192
"""Most tokens of prompt and reply unless asked otherwise; KV buffers are allocated once."""


@dataclass(frozen=True, slots=True)
class Target:
    """A loaded target: which and why, and what a draft must suit."""

    picked: Choice
    ground: Ground

    @property
    def runner(self) -> RunnerChoice:
        """The runner that serves."""
        return self.ground.runner


def explain(error: Exception) -> Exception:
    """torch's own out-of-memory as an error a user can act on; anything else unchanged."""
    if isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error):
        return EngineError(
            "There is not enough memory for this.",
            "Choose a smaller model or draft, or close other programs.",
        )
    return error


def assemble(
    options: EngineOptions,
    target: str | None,
    draft: str | None,
    show: Show,
    cancelled: Callable[[], bool],
) -> Session:
    """Fetch, convert, load and measure. Raises a SpecdecError that says what to do."""
    depot = Depot(options, show, cancelled)
    return with_draft(depot, load_target(depot, target), draft)


def load_target(depot: Depot, name: str | None) -> Target:
    """The first half of a load: a target in memory, and the runner that serves."""
    options = depot.options
    picked, packed = _pick_target(depot, name), options.weights == "packed"
    where = device.choose(options.device, options.dtype)
    if packed:
        check_packed(where.device, where.dtype)
    elif options.weights == "int8":
        quantised.check_int8()
    files = depot.ready(depot.registry.get(picked.value), packed)
    free = free_bytes(where.device)
    tokenizer = load_tokenizer(files.folder)
    context = _context(options, files.entry, where)
    _check_fit(files, where, context, options.weights)
    model = depot.load(files, where.device, where.dtype, where.form, options.weights)
    if model.lean and model.dtype != where.dtype:  # the one asked for is wrong on this device
        choice = Choice(device.SHORT[model.dtype], model.notes[-1])
        where = replace(where, dtype=model.dtype, dtype_choice=choice)
        _check_fit(files, where, context, options.weights)
    context = min(context, model.context)
    depot.show(Phase("measuring", files.entry.id, "a step of the target, by rows"))
    vocab = known_ids(tokenizer, model)
    runner = measure.choose_runner(model, WIDTH, context, vocab)
    told = forms.other_form(model, files.folder, where.form, runner.plain_cost)
    model = replace(model, notes=(*model.notes, *([told] if told else [])))
    where = replace(where, dtype_choice=forms.held(model, where.dtype_choice))
    return Target(picked, Ground(files, model, tokenizer, where, context, WIDTH, runner, free))


def with_draft(depot: Depot, target: Target, draft: str | None) -> Session:
    """The second half: the draft chosen and loaded. A target may be paired more than once."""
    ground, runner = target.ground, target.runner
    drafting = choose_draft(depot, ground, draft)
    pair = Pair(
        target=target.picked,
        draft=drafting.choice,
        device=ground.where.device_choice,
        dtype=ground.where.dtype_choice,
        draft_dtype=drafting.dtype,
        runner=runner.choice,
        exact=runner.exact,
        context=ground.context,
        k=MAX_K,
        drafts=drafting.options,
        notices=tuple(
            text
            for text in (
                ground.files.told,
                ground.model.reason,
                *ground.model.notes,
                *drafting.notices,
            )
            if text
        ),
        memory=memory_of(depot, ground, drafting),
        pace=pace_of(ground, drafting),
    )
    return _prepared(_session(pair, ground, runner, drafting), ground, depot.show)


def _prepared(session: Session, ground: Ground, show: Show) -> Session:
    """Where calls are captured, open the runner that serves and capture them before a reply waits.

    How that went is told with the runner's reason.
    """
    if recorder_of(ground.where.device) is None:
        return session

    def told(done: int, total: int) -> None:
        show(Phase("measuring", ground.files.entry.id, "capturing calls", done, total))

    choice = prepare(session.scorer("auto")[1].scorer, told)
    if choice is not None:
        runner = session.pair.runner
        reason = f"{runner.reason}; its calls are {choice.value}: {choice.reason}"
        session.pair = replace(session.pair, runner=Choice(runner.value, reason))
    return session


def _pick_target(depot: Depot, name: str | None) -> Choice:
    if name is not None:
        return Choice(depot.registry.get(name).id, "asked for")
    where = device.choose(depot.options.device, depot.options.dtype).device
    return pairing.pick_target(
        depot.registry, depot.store, where.type, free_bytes(where), depot.hub_reachable
    )


def _context(options: EngineOptions, entry: Entry, where: DeviceChoice) -> int:
    """What was asked for, else at most CONTEXT and a quarter of free memory in KV buffers."""
    most = entry.context or CONTEXT
    if options.context is not None:
        return min(most, options.context)
    one = memory.kv_bytes(entry.shape, 1, where.dtype.itemsize)
    afford = free_bytes(where.device) // 4 // one if one else CONTEXT
    return max(512, min(most, CONTEXT, afford))


def _check_fit(files: Files, where: DeviceChoice, context: int, weights: str | None) -> None:
    fit = memory.fits(forms.need_bytes(files, where, context, weights), free_bytes(where.device))
    if fit.ok is False:
        raise FitError(
            f"{files.entry.name} does not fit: it {fit.reason}.",
            "Choose a smaller model, --dtype bfloat16, or close other programs.",
        )


def _session(pair: Pair, ground: Ground, runner: RunnerChoice, drafting: Drafting) -> Session:
    model, tokenizer = ground.model, ground.tokenizer

    def open_runner(name: Runner) -> Scorer:
        kind: Kind = "static" if name == "static" else "fast"
        exact = pair.exact if kind == runner.runner else (None if kind == "static" else False)
        return open_scorer(model, kind, WIDTH, pair.context, ground.vocab, exact)

    lengths = Lengths(runner.costs, drafting.costs, MAX_K, auto=bool(drafting.members))

    def make_length(k: int | None, conversation: str = "") -> Length:
        """A k that was asked for is drafted; None drafts what pays, as this conversation learns."""
        return lengths.of(conversation) if k is None else FixedLength(k)

    return Session(
        pair=pair,
        prompts=PromptBuilder(tokenizer, ground.vocab),
        decode=Decode(tokenizer),
        end_ids=end_ids(ground.files.folder, tokenizer),
        drafter=drafting.drafter,
        runner=runner.runner,
        open_scorer=open_runner,
        make_length=make_length,
        store=drafting.store,
    )
