"""Checkpoints quantised here by rounding: GPTQ in AutoGPTQ's first format, AWQ's gemm, and fp8.

Knows the file format only; nothing of what reads it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

GROUP = 32
_SHIFTS = torch.arange(8) * 4


def quantise(folder: Path, method: str = "gptq") -> dict[str, Tensor]:
    """Round the layers of a saved model to 4 bits in place; what they then are, by name."""
    pack = _gptq if method == "gptq" else _awq
    file = folder / "model.safetensors"
    plain: dict[str, Tensor] = {}
    kept: dict[str, Tensor] = {}
    for name, weight in load_file(file).items():
        if "layers" in name and name.endswith("proj.weight"):
            levels, scales = _rounded(weight.float())
            parts = pack(levels, scales)
            plain[name] = (levels * scales.float().repeat_interleave(GROUP, 0)).T.contiguous()
            kept |= {name.removesuffix("weight") + part: t for part, t in parts.items()}
        else:
            kept[name] = weight
    save_file(kept, file, {"format": "pt"})
    how = {"quant_method": method, "bits": 4, "group_size": GROUP}
    own = {"desc_act": False, "sym": True}
    if method == "awq":
        own = {"zero_point": True, "version": "gemm"}
    write_config(folder, {**how, **own})
    return plain


def to_fp8(folder: Path) -> None:
    """Round the layers of a saved tiny model to fp8 in place, each one block with one scale."""
    file = folder / "model.safetensors"
    kept = load_file(file)
    for name in [n for n in kept if "layers" in n and n.endswith("proj.weight")]:
        scale = kept[name].float().abs().amax() / torch.finfo(torch.float8_e4m3fn).max
        kept[name] = (kept[name] / scale).to(torch.float8_e4m3fn)
        kept[f"{name}_scale_inv"] = scale.view(1, 1)
    save_file(kept, file, {"format": "pt"})
    blocks = {"activation_scheme": "dynamic", "weight_block_size": [128, 128]}
    write_config(folder, {"quant_method": "fp8", **blocks})


def write_config(folder: Path, quantization: Any) -> None:
    """Say in config.json how the weights are quantised."""
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), "quantization_config": quantization}
    path.write_text(json.dumps(config))


def _rounded(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Levels -8 to 7, [K, rows] as both methods pack them, and scales [K / GROUP, rows]."""
    width, rows = weight.T.shape
    groups = weight.T.reshape(width // GROUP, GROUP, rows)
    scales = (groups.abs().amax(1) / 7).half()
    levels = (groups / scales.float()[:, None]).round().clamp(-8, 7)
    return levels.view(width, rows), scales.contiguous()


def _gptq(levels: Tensor, scales: Tensor) -> dict[str, Tensor]:
    """Eight of K to a word; zeros are stored less one."""
    width, rows = levels.shape
    nibbles = (levels + 8).view(width // 8, 8, rows).long()
    zeros = torch.full((width // GROUP, rows // 8, 8), 7)
    return {
        "qweight": _int32((nibbles << _SHIFTS[None, :, None]).sum(1)),
        "qzeros": _int32((zeros << _SHIFTS).sum(2)),
        "scales": scales,
        "g_idx": (torch.arange(width) // GROUP).int(),
    }


def _awq(levels: Tensor, scales: Tensor) -> dict[str, Tensor]:
    """Eight rows to a word, in the order its kernel unpacks them."""

    def words(numbers: Tensor) -> Tensor:
        eights = numbers.view(len(numbers), -1, 8)[:, :, [0, 2, 4, 6, 1, 3, 5, 7]].long()
        return _int32((eights << _SHIFTS).sum(2))

    zeros = torch.full(scales.shape, 8)
    return {"qweight": words(levels + 8), "qzeros": words(zeros), "scales": scales}


def _int32(words: Tensor) -> Tensor:
    return torch.where(words >= 2**31, words - 2**32, words).int().contiguous()
