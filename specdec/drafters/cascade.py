"""Copies where the text repeats, and asks one draft model elsewhere. Knows two drafters only."""

from __future__ import annotations

from specdec.drafters.auto import LONG_ENOUGH as LONG_ENOUGH
from specdec.drafters.auto import AutoDrafter
from specdec.drafters.base import Drafter
from specdec.drafters.ngram import NgramDrafter


class CascadeDrafter(AutoDrafter):
    """A model and copies; has the model's name. See `AutoDrafter`."""

    def __init__(self, model: Drafter, lookup: NgramDrafter) -> None:
        super().__init__(model.name, (model,), lookup)
