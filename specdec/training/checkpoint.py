"""A training run on disk: weights, the optimiser's moments, and the place. Knows no data.

One file, replaced whole: what is in it belongs together.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from specdec.errors import LoadError
from specdec.training.files import write_tensors
from specdec.training.module import DraftHead

MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(slots=True)
class Place:
    """How far training has come. `history` has a row for each time acceptance was measured."""

    updates: int = 0
    tokens: int = 0
    epoch: int = 0
    batch: int = 0  # of this epoch
    sequences: int = 0  # that this epoch is of
    history: list[dict[str, Any]] = field(default_factory=list)


def save(file: Path, head: DraftHead, optimiser: torch.optim.Optimizer, place: Place) -> None:
    """Write all three."""
    tensors: dict[str, Tensor] = {}
    for name, weight in head.named_parameters():
        tensors[f"head.{name}"] = weight
        for moment in MOMENTS:
            if moment in optimiser.state.get(weight, {}):
                tensors[f"{moment}.{name}"] = optimiser.state[weight][moment]
    about = {name: getattr(place, name) for name in Place.__slots__}
    write_tensors(file, tensors, {"place": json.dumps(about)})


def load(file: Path, head: DraftHead, optimiser: torch.optim.Optimizer) -> Place:
    """Put what `save` wrote back where it came from; a new Place where there is no file.

    Raises LoadError for a file that is not one of this head's.
    """
    if not file.exists():
        return Place()
    try:
        with safe_open(file, "pt") as stored:
            place = Place(**json.loads(stored.metadata()["place"]))
            with torch.no_grad():
                for name, weight in head.named_parameters():
                    weight.copy_(stored.get_tensor(f"head.{name}"))
                    if place.updates:
                        optimiser.state[weight] = {
                            "step": torch.tensor(float(place.updates)),
                            **{
                                moment: stored.get_tensor(f"{moment}.{name}").to(weight.device)
                                for moment in MOMENTS
                            },
                        }
    except Exception as error:  # safetensors has errors of its own kind
        raise LoadError(
            f"The checkpoint {file} cannot be read: {error}.", "Remove it to train anew."
        ) from error
    return place
