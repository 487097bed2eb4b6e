"""Makes a tiny model one that can be left early: its later layers add nothing. Knows files only."""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import load_file, save_file


def idle_after(folder: Path, layers: int) -> Path:
    """Zero what every layer from number `layers` on adds; the model in `folder` is changed."""
    file = folder / "model.safetensors"
    weights = load_file(file)
    for name, weight in weights.items():
        parts = name.split(".")  # model.layers.N.mlp.down_proj.weight
        if parts[-2] in ("o_proj", "down_proj") and int(parts[2]) >= layers:
            weight.zero_()
    save_file(weights, file, metadata={"format": "pt"})
    return folder
