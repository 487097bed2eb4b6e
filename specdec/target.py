"""Opens a scorer over a loaded model: the static runner, the fast one, or transformers' cache.

On a CUDA device the lean runners' calls are captured.
Knows models and runners; nothing of which one is worth it (`measure`).
"""

from __future__ import annotations

from typing import Literal

import torch

from specdec import graphs, selftest
from specdec.cache import FallbackScorer
from specdec.captured import CapturedScorer, Progress
from specdec.errors import SettingError
from specdec.graphs import Graphs
from specdec.loading import Model
from specdec.pair import Choice
from specdec.runner import Layout, LeanScorer
from specdec.scorer import Scorer

Kind = Literal["static", "fast"]


def open_scorer(
    model: Model,
    runner: Kind,
    width: int,
    capacity: int,
    vocab: int,
    exact: bool | None = None,
) -> Scorer:
    """A scorer for one sequence of at most `capacity` tokens, `width` rows a call.

    `exact` None asks the self-test, once a model and width. False skips it and gives the plain
    fast runner: that is for drafts, which may be wrong. Raises SettingError for a static runner on
    a model that only transformers runs.
    """
    if model.weights is None:
        if runner == "static":
            raise SettingError(
                "The static runner is for the lean decoder only.", f"This model {model.reason}."
            )
        return FallbackScorer(model.module, width, capacity, vocab)
    recorder = recorder_of(model.device)
    captures = recorder is not None
    if runner == "static":
        layout = Layout(width, (width,), True, captures)
        exact = bool(even_counts(model, width, vocab)) if exact is None else exact
    else:
        even = () if exact is False else even_counts(model, width, vocab)
        exact = bool(even)
        if captures:  # a captured call has one size, also where the bits do not depend on it
            layout = Layout(width, even or tuple(range(1, width + 1)), True, captures)
        else:
            layout = Layout(width, even, True) if even else Layout.plain(width)
    if recorder is None:
        return LeanScorer(model.weights, layout, capacity, vocab, exact)
    return CapturedScorer(model.weights, layout, capacity, vocab, exact, Graphs(recorder))


def recorder_of(device: torch.device) -> graphs.Device | None:
    """What captures calls on `device`: CUDA alone can."""
    return graphs.Cuda(device) if device.type == "cuda" else None


def prepare(scorer: Scorer, progress: Progress) -> Choice | None:
    """Capture a scorer's calls ahead; whether that went well and why not.

    None where calls are not captured at all. The scorer must be empty.
    """
    if not isinstance(scorer, CapturedScorer):
        return None
    scorer.prepare(progress)
    return scorer.graphs.choice


def even_counts(model: Model, width: int, vocab: int) -> tuple[int, ...]:
    """The rows a call may take and still give each row the same bits; tested once, remembered."""
    if model.weights is None:
        return ()
    if width not in model.even:
        model.even[width] = selftest.even_counts(model.weights, width, vocab)
    return model.even[width]
