"""A benchmark of models that are not here: random weights of a true shape, acceptance forced.

Knows shapes and contenders; nothing of files, tokenizers or other engines.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count

import torch

from specdec import device, measure, threads
from specdec.assemble import WIDTH
from specdec.bench import card, own, shapes
from specdec.bench.bandwidth import read_bandwidth
from specdec.bench.card import Card, Result
from specdec.bench.forced import Forced, ForcedOwn
from specdec.bench.own import Own
from specdec.bench.passes import Passes
from specdec.bench.physics import Physics
from specdec.bench.plan import LAW, Plan
from specdec.bench.race import Tell, race
from specdec.bench.sample import Contender
from specdec.device import DeviceChoice
from specdec.draft_form import draft_form
from specdec.drafters.length import DraftCost, FixedLength, Lengths
from specdec.drafters.model import ModelDrafter
from specdec.errors import SettingError
from specdec.linear import Form
from specdec.loading import Model
from specdec.measure import RunnerChoice
from specdec.pair import Choice
from specdec.registry import load_registry
from specdec.request import MAX_K, Sampling
from specdec.session import Cached
from specdec.target import open_scorer, prepare
from specdec.turn import Length

KIND = "synthetic"
PROMPT = 128
LENGTHS = (3, MAX_K)
"""Draft lengths that are timed beside the one that is measured to pay."""


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two random models and the runner chosen for the target as a load would."""

    names: tuple[str, ...]  # target, draft
    where: DeviceChoice
    target: Model
    draft: Model | None
    runner: RunnerChoice
    context: int
    vocab: int


def measure_shape(plan: Plan, shape: str, accept: float, tell: Tell) -> Result:
    """`shape` is one registry id (or how one begins), or two with a plus: target and draft.

    Raises SettingError for a shape that the registry does not hold whole.
    """
    pair = _load(plan, shape, tell)
    serving = Cached(
        open_scorer(
            pair.target, pair.runner.runner, WIDTH, pair.context, pair.vocab, pair.runner.exact
        )
    )
    captured = prepare(serving.scorer, lambda done, total: None)
    fast = open_scorer(pair.target, "fast", WIDTH, pair.context, pair.vocab, exact=False)
    prompt = tuple(random.Random(own.SEED).choices(range(min(pair.vocab, 10_000)), k=PROMPT))
    with own.watched(pair.where.device.type, serving.scorer) as passes:
        mine = own.plain(
            serving,
            fast if pair.runner.exact else None,
            letters,
            pair.context,
            passes,
            plan.sampling,
        )
        contenders: list[Contender] = [*mine]
        if pair.draft is not None:
            truth = {prompt: mine[0].reply(prompt, plan.tokens).ids}
            contenders += _drafted(pair, pair.draft, serving, truth, accept, passes, plan.sampling)
        samples = race(contenders, {KIND: [prompt]}, plan.tokens, plan.runs, tell)
    bandwidth, how = read_bandwidth(pair.where.device)
    return Result(
        _card(plan, pair, accept, bandwidth),
        samples,
        Physics(bandwidth, pair.target.step_bytes, how),
        _facts(pair, accept, captured),
    )


def letters(ids: Sequence[int]) -> str:
    """Text of ids nobody has a tokenizer for."""
    return "x" * len(ids)


def _load(plan: Plan, shape: str, tell: Tell) -> _Pair:
    registry = load_registry(plan.options.data_dir)
    entries = [shapes.find(registry, part) for part in shape.split("+")]
    if len(entries) > 2:
        raise SettingError(f"{shape!r} names {len(entries)} models.", "Name a target and a draft.")
    known = [shapes.shape_for(entry) for entry in entries]
    where = device.choose(plan.options.device, plan.options.dtype)
    tell(f"making {shape} of random numbers on {where.device} ...")
    models = [
        shapes.random_model(one, where.device, *_form(plan, where, index), own.SEED)
        for index, one in enumerate(known)
    ]
    vocab = min(one.rows for one in known)
    context = min(2 * PROMPT + plan.tokens, *(one.context for one in known))
    tell("measuring a step by rows ...")
    runner = measure.choose_runner(models[0], WIDTH, context, vocab)
    names = tuple(entry.id for entry in entries)
    return _Pair(names, where, models[0], (*models, None)[1], runner, context, vocab)


def _form(plan: Plan, where: DeviceChoice, index: int) -> tuple[torch.dtype, Form]:
    """As a load would take them."""
    if index == 0:
        return where.dtype, where.form
    form = draft_form(plan.options.draft_dtype, where)
    if form == "int4" or form == "int8":
        return torch.bfloat16, form
    dtype = device.DTYPES[form]
    return dtype, device.form_of(where.device, dtype)[0]


def _drafted(
    pair: _Pair,
    draft: Model,
    serving: Cached,
    truth: dict[tuple[int, ...], tuple[int, ...]],
    accept: float,
    passes: Passes | None,
    sampling: Sampling,
) -> list[ForcedOwn]:
    """The length that is measured to pay, then each of LENGTHS, over one draft."""
    scorer = open_scorer(draft, "fast", WIDTH, pair.context, pair.vocab, exact=False)
    cost = DraftCost(measure.step_seconds(scorer, [1])[1], measure.reading_seconds(scorer))
    forced, name = Forced(scorer, accept), pair.names[1]
    drafter = ModelDrafter(forced, name, pair.vocab, frozenset())
    lengths, number = Lengths(pair.runner.costs, {name: cost}, MAX_K), count()

    def one(label: str, length: Callable[[], Length]) -> ForcedOwn:
        mine = Own(
            label, serving, drafter, length, letters, pair.context, passes, sampling=sampling
        )
        return ForcedOwn(mine, forced, truth)

    fixed = [one(f"{name} k={k}", partial(FixedLength, k)) for k in LENGTHS]
    return [one(name, lambda: lengths.of(f"reply {next(number)}")), *fixed]


def _card(plan: Plan, pair: _Pair, accept: float, bandwidth: float) -> Card:
    device_name = str(pair.where.device)
    return Card(
        machine=card.machine(device_name, threads.most(), bandwidth),
        versions=card.versions(),
        dtype=pair.where.dtype_choice.value,
        settings={
            "synthetic": "+".join(pair.names),
            "target": pair.names[0],
            "forced_acceptance": accept,
            "runner": pair.runner.runner,
            "exact": pair.runner.exact,
            "prompt_tokens": PROMPT,
            **{name: getattr(plan.sampling, name) for name in LAW},
            "tokens": plan.tokens,
            "runs": plan.runs,
        },
        seed=own.SEED,
    )


def _facts(pair: _Pair, accept: float, captured: Choice | None) -> tuple[str, ...]:
    where, choice = pair.where, pair.runner.choice
    lines = [
        f"Random weights of the shape of {pair.names[0]} on {where.device} in"
        f" {where.dtype_choice.value} ({where.dtype_choice.reason}).",
        f"Runner {choice.value}: {choice.reason}.",
    ]
    if captured is not None:
        lines.append(f"Its calls are {captured.value}: {captured.reason}.")
    if pair.draft is not None:
        lines.append(
            f"Draft {pair.names[1]}, random too, {pair.draft.form}; {accept:.0%} of its tokens are"
            " forced to be right: its acceptance is no finding, only the time is."
        )
    return tuple(lines)
