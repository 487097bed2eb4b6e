"""A benchmark of models that are not here: random weights of a true shape, acceptance forced.

Knows shapes and contenders; nothing of files, tokenizers or other engines.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from specdec import device, measure
from specdec.assemble import WIDTH
from specdec.bench import card, own, shapes
from specdec.bench.card import Card, Result
from specdec.bench.forced import Forced, ForcedOwn
from specdec.bench.own import Own
from specdec.bench.passes import Passes
from specdec.bench.physics import Physics, read_bandwidth
from specdec.bench.plan import Plan
from specdec.bench.race import Tell, race
from specdec.bench.sample import Contender
from specdec.device import DeviceChoice
from specdec.drafters.length import FixedLength
from specdec.drafters.model import ModelDrafter
from specdec.errors import SettingError
from specdec.linear import Form
from specdec.loading import Model
from specdec.measure import RunnerChoice
from specdec.registry import load_registry
from specdec.request import MAX_K
from specdec.session import Cached
from specdec.target import open_scorer

KIND = "synthetic"
PROMPT = 128
LENGTHS = (3, MAX_K)
"""Draft lengths timed: each is a row."""


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
    fast = open_scorer(pair.target, "fast", WIDTH, pair.context, pair.vocab, exact=False)
    prompt = tuple(random.Random(own.SEED).choices(range(min(pair.vocab, 10_000)), k=PROMPT))
    with own.watched(pair.where.device.type, serving.scorer) as passes:
        mine = own.plain(
            serving, fast if pair.runner.exact else None, letters, pair.context, passes
        )
        contenders: list[Contender] = [*mine]
        if pair.draft is not None:
            truth = {prompt: mine[0].reply(prompt, plan.tokens).ids}
            contenders += _drafted(pair, pair.draft, serving, truth, accept, passes)
        samples = race(contenders, {KIND: [prompt]}, plan.tokens, plan.runs, tell)
    bandwidth, how = read_bandwidth(pair.where.device)
    return Result(
        _card(plan, pair, accept, bandwidth),
        samples,
        Physics(bandwidth, pair.target.step_bytes, how),
        _facts(pair, accept),
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
    """The target as it would be loaded; a draft as asked, or int4 on a CPU."""
    asked = plan.options.draft_dtype
    if index == 0:
        return where.dtype, where.form
    if asked in (None, "int4") and where.device.type == "cpu":
        return torch.bfloat16, "int4"
    if asked in (None, "int4"):
        return where.dtype, "dense"
    return device.DTYPES[str(asked)], "dense"


def _drafted(
    pair: _Pair,
    draft: Model,
    serving: Cached,
    truth: dict[tuple[int, ...], tuple[int, ...]],
    accept: float,
    passes: Passes | None,
) -> list[ForcedOwn]:
    """One contender for each draft length, over one draft."""
    scorer = open_scorer(draft, "fast", WIDTH, pair.context, pair.vocab, exact=False)
    forced = Forced(scorer, accept)
    drafter = ModelDrafter(forced, pair.names[1], pair.vocab, frozenset())

    def one(k: int) -> ForcedOwn:
        name = f"{pair.names[1]} k={k}"
        mine = Own(name, serving, drafter, lambda: FixedLength(k), letters, pair.context, passes)
        return ForcedOwn(mine, forced, truth)

    return [one(k) for k in LENGTHS]


def _card(plan: Plan, pair: _Pair, accept: float, bandwidth: float) -> Card:
    device_name = str(pair.where.device)
    return Card(
        machine=card.machine(device_name, torch.get_num_threads(), bandwidth),
        versions=card.versions(),
        dtype=pair.where.dtype_choice.value,
        settings={
            "synthetic": "+".join(pair.names),
            "target": pair.names[0],
            "forced_acceptance": accept,
            "runner": pair.runner.runner,
            "exact": pair.runner.exact,
            "prompt_tokens": PROMPT,
            "tokens": plan.tokens,
            "runs": plan.runs,
        },
        seed=own.SEED,
    )


def _facts(pair: _Pair, accept: float) -> tuple[str, ...]:
    where, choice = pair.where, pair.runner.choice
    lines = [
        f"Random weights of the shape of {pair.names[0]} on {where.device} in"
        f" {where.dtype_choice.value} ({where.dtype_choice.reason}).",
        f"Runner {choice.value}: {choice.reason}.",
    ]
    if pair.draft is not None:
        lines.append(
            f"Draft {pair.names[1]}, random too, {pair.draft.form}; {accept:.0%} of its tokens are"
            " forced to be right: its acceptance is no finding, only the time is."
        )
    return tuple(lines)
