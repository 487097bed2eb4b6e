"""Opens a scorer over a loaded model: the static runner, the fast one, or transformers' cache.

Knows models and runners; nothing of which one is worth it (`measure`).
"""

from __future__ import annotations

from typing import Literal

from specdec import selftest
from specdec.cache import FallbackScorer
from specdec.errors import SettingError
from specdec.loading import Model
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
    if runner == "static":
        layout = Layout(width, (width,), True)
        exact = bool(even_counts(model, width, vocab)) if exact is None else exact
        return LeanScorer(model.weights, layout, capacity, vocab, exact)
    even = () if exact is False else even_counts(model, width, vocab)
    layout = Layout(width, even, True) if even else Layout.plain(width)
    return LeanScorer(model.weights, layout, capacity, vocab, bool(even))


def even_counts(model: Model, width: int, vocab: int) -> tuple[int, ...]:
    """The rows a call may take and still give each row the same bits; tested once, remembered."""
    if model.weights is None:
        return ()
    if width not in model.even:
        model.even[width] = selftest.even_counts(model.weights, width, vocab)
    return model.even[width]
