"""Opens a scorer over a loaded model: the static runner, the fast one, or transformers' cache.

Knows models and runners; nothing of which one is worth it (`measure`).
"""

from __future__ import annotations

from typing import Literal

from specdec.cache import FallbackScorer
from specdec.errors import SettingError
from specdec.loading import Model
from specdec.runner import Layout, LeanScorer
from specdec.scorer import Scorer
from specdec.selftest import self_test

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

    `exact` None asks the self-test, once a model, runner and width. False skips it and gives the
    plain fast runner: that is for drafts, which may be wrong. Raises SettingError for a static
    runner on a model that only transformers runs.
    """
    if model.weights is None:
        if runner == "static":
            raise SettingError(
                "The static runner is for the lean decoder only.", f"This model {model.reason}."
            )
        return FallbackScorer(model.module, width, capacity, vocab)
    wanted = Layout(width, pad_rows=runner == "static", fixed=True)
    if exact is None:
        exact = is_exact(model, runner, width, vocab)
    if exact or runner == "static":
        return LeanScorer(model.weights, wanted, capacity, vocab, exact)
    return LeanScorer(model.weights, Layout(width, False, False), capacity, vocab, False)


def is_exact(model: Model, runner: Kind, width: int, vocab: int) -> bool:
    """Whether `runner` gives the same bits however many rows are scored; tested once, remembered.

    The fast runner is tried only where every matrix treats its rows evenly (oneDNN, int4).
    """
    if model.weights is None:
        return False
    if runner == "fast" and not all(m.even_rows for m in model.weights.matrices()):
        return False
    key = (runner, width)
    if key not in model.proofs:
        layout = Layout(width, pad_rows=runner == "static", fixed=True)
        model.proofs[key] = self_test(model.weights, layout, vocab)
    return model.proofs[key]
