"""Makes a loaded target's first layers its draft: chooses how many here, or says why none can.

Knows a target, texts and the calibration; nothing of how drafts are ranked, or of turns.
"""

from __future__ import annotations

from dataclasses import replace

from specdec import exit_calibration, prompt_sets
from specdec.depot import Depot
from specdec.drafters.cascade import CascadeDrafter
from specdec.drafters.early_exit import EarlyExitDrafter
from specdec.drafters.ngram import NgramDrafter
from specdec.errors import PairError
from specdec.exit_calibration import Exit
from specdec.ground import Drafting, Ground, open_store
from specdec.loading import Model
from specdec.pair import Choice, DraftOption, Phase
from specdec.runner import STEP, LeanScorer
from specdec.target import open_scorer, recorder_of
from specdec.tokenizer import end_ids

TEXT = 96
"""Tokens of the calibration's text: its agreement is known to a few per cent, in one short pass."""


def no_early_exit(model: Model) -> str:
    """Why this target cannot be left early; "" when it can."""
    if model.weights is None:
        return "the target runs through transformers, which runs all layers or none"
    if recorder_of(model.device) is not None:
        return f"on {model.device.type} calls are captured, and those run all layers"
    if not exit_calibration.candidates(model.layers):
        least = exit_calibration.LEAST
        return f"the target has {model.layers} layers, and needs {least} to be left early"
    return ""


def load_early_exit(
    depot: Depot, ground: Ground, choice: Choice, options: tuple[DraftOption, ...]
) -> Drafting:
    """Calibrates on a short text. Raises PairError where the target cannot be left early."""
    if why := no_early_exit(ground.model):
        raise PairError(f"{choice.value} cannot draft: {why}.", "Choose another draft.")
    depot.show(Phase("measuring", ground.files.entry.id, "where its layers agree"))
    best = calibrated(ground)
    store = open_store(depot, ground)
    ends = end_ids(ground.files.folder, ground.tokenizer)
    drafter = EarlyExitDrafter(choice.value, best.layers, ends, best.agreement)
    why = told(best, ground.model.layers, ground.runner.costs[1])
    return Drafting(
        CascadeDrafter(drafter, NgramDrafter(store)),
        replace(choice, reason=f"{choice.reason}; {why}; copies what repeats (n-gram) first"),
        Choice("as the target", f"its own layers: {best.token * 1e3:.1f} ms a token"),
        best.token,
        options=options,
        store=store,
        net=True,
    )


def told(best: Exit, layers: int, step: float) -> str:
    """The calibration in words: "after layer 12 of 30: ..."."""
    cost = best.token / step
    so = (
        f"predicted {best.gain:.2f} times plain with {best.k} drafted"
        if best.gain > 1
        else f"would lose ({best.gain:.2f} times plain at best)"
    )
    return (
        f"after layer {best.layers} of {layers}: {best.agreement:.0%} agreement, a drafted token"
        f" takes {cost:.2f} of a step; {so}"
    )


def calibrated(ground: Ground) -> Exit:
    """The layer with the best predicted gain here; its cost is then measured."""
    weights, costs, k_max = ground.model.weights, ground.runner.costs, ground.width - 1
    assert weights is not None
    layers = len(weights.layers)
    exits = exit_calibration.candidates(layers)
    shares = exit_calibration.agreements(weights, sample(ground), exits, ground.vocab)
    head = exit_calibration.head_seconds(weights)
    best = exit_calibration.best_exit(shares, costs, head, layers, k_max)
    token = exit_calibration.measured_token(_scorer(ground), best.layers, min(3, k_max))
    return exit_calibration.predicted(costs, token, best.layers, best.agreement, k_max)


def sample(ground: Ground) -> list[int]:
    """The text agreement is measured on: prompts that come with the program, as plain text."""
    texts = [text for kind in ("chat", "code", "maths") for text in prompt_sets.load(kind)[:3]]
    ids: list[int] = ground.tokenizer.encode("\n\n".join(texts))
    return ids[: min(TEXT, ground.context)]


def _scorer(ground: Ground) -> LeanScorer:
    """One as the runner that serves, on a short cache."""
    runner, width, vocab = ground.runner, ground.width, ground.vocab
    short = min(ground.context, STEP)
    scorer = open_scorer(ground.model, runner.runner, width, short, vocab, runner.exact)
    assert isinstance(scorer, LeanScorer)
    return scorer
