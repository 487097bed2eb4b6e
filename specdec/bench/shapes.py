"""Random weights of a true shape: a model made on the device, with no files. Knows the registry.

What the numbers are does not matter to the time a step takes; their places and kinds do.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from specdec.errors import SettingError
from specdec.families import Shape, shape_of
from specdec.linear import Form
from specdec.loading import Model, lean_model
from specdec.matrices import Matrices
from specdec.registry import Entry, Registry

KINDS = {
    "SmolLM2": "llama",
    "Llama": "llama",
    "Mistral": "mistral",
    "Qwen2.5": "qwen2",
    "Qwen3": "qwen3",
    "DeepSeek R1 Distill Qwen": "qwen2",
    "DeepSeek R1 Distill Llama": "llama",
}
"""How names in the registry begin -> `model_type`; of the others it does not hold all there is."""

SCALE = 0.02


@dataclass(frozen=True, slots=True)
class Random:
    """Stands where a checkpoint does: every tensor is there, and random. Norms are ones."""

    device: torch.device
    dtype: torch.dtype
    tied: bool
    seed: int
    folder: Path = Path("synthetic")

    def __contains__(self, name: str) -> bool:
        return not (self.tied and name.startswith("lm_head"))

    def get(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """Normal with a deviation of 0.02, as models begin."""
        if "norm" in name:
            return torch.ones(shape, device=self.device, dtype=self.dtype)
        seed = self.seed + zlib.crc32(name.encode())  # of its own: layers are made side by side
        generator = torch.Generator(self.device).manual_seed(seed)
        random = torch.empty(shape, device=self.device, dtype=self.dtype)
        return random.normal_(0, SCALE, generator=generator)


def find(registry: Registry, name: str) -> Entry:
    """The entry of this id, or the only one that begins with it. Raises SettingError."""
    wanted = name.strip().lower()
    models = [entry for entry in registry if "head" not in entry.roles]
    found: list[Entry] = [entry for entry in models if entry.id == wanted]
    found = found or [entry for entry in models if entry.id.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    near = ", ".join(entry.id for entry in found) or "python -m specdec models"
    raise SettingError(f"There is no one shape {name!r}.", f"See: {near}.")


def shape_for(entry: Entry) -> Shape:
    """The decoder's shape of a registry entry. Raises SettingError where the registry has gaps."""
    known = entry.shape
    kind = next((kind for start, kind in KINDS.items() if entry.name.startswith(start)), None)
    sizes = known.model_dump() if known else {}
    names = ("layers", "hidden", "intermediate", "heads", "kv_heads", "head_dim", "vocab")
    missing = [name for name in names if not sizes.get(name)]
    if kind is None or missing or sizes.get("experts"):
        what = f"lacks {', '.join(missing)}" if missing else "is of a family without a known form"
        raise SettingError(f"The shape of {entry.id} {what}.", "Choose another, such as qwen3-8b.")
    shape, why = shape_of(
        {
            "model_type": kind,
            "num_hidden_layers": sizes["layers"],
            "hidden_size": sizes["hidden"],
            "intermediate_size": sizes["intermediate"],
            "num_attention_heads": sizes["heads"],
            "num_key_value_heads": sizes["kv_heads"],
            "head_dim": sizes["head_dim"],
            "vocab_size": sizes["vocab"],
            "tie_word_embeddings": bool(sizes["tied"]),
            "max_position_embeddings": entry.context or 8192,
            "sliding_window": None,
        }
    )
    if shape is None:
        raise SettingError(f"The shape of {entry.id} cannot run: {why}.", "Choose another.")
    return shape


def random_model(
    shape: Shape, device: torch.device, dtype: torch.dtype, form: Form, seed: int
) -> Model:
    """A model of this shape in this form, as a load would have made it."""
    tensors = Random(device, dtype, shape.tied, seed)
    return lean_model(Matrices(tensors, device, dtype, form), shape, "synthetic")
