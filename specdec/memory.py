"""Bytes of weights and KV buffers, and whether they fit. Knows shapes, nothing of files or torch.

What is counted is what the lean decoder holds: a packed draft keeps its embedding in bf16.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import psutil

from specdec.registry import Entry
from specdec.shape import Shape

Form = Literal["fp32", "bf16", "fp16", "int8", "int4"]

_BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "int8": 1.25, "int4": 0.625}
"""Bytes a weight takes; int4 in groups of 32 with a bf16 scale and zero each: 1/2 + 4/32. Of int8
about a quarter, what reads an MLP, stays in fp16."""

WORKSPACE = 400 << 20
"""Bytes beside weights and KV: activations, logits of a prefill chunk, the allocator's slack."""


@dataclass(frozen=True, slots=True)
class Fit:
    """`ok` is None when the need is not known; `reason` is the line a user reads."""

    ok: bool | None
    need: int | None
    free: int
    reason: str


def size_text(count: int) -> str:
    """Bytes as a person reads them: 3.1 GB, 98 MB."""
    if count >= 10**9:
        return f"{count / 1e9:.1f} GB"
    return f"{count / 1e6:.0f} MB" if count >= 10**6 else f"{count / 1e3:.0f} kB"


def free_memory(device: str) -> int:
    """Bytes free in this machine's main memory, which `cpu` and `mps` use.

    Raises ValueError for `cuda`: those numbers need the driver, so the engine passes them in.
    """
    if device.startswith("cuda"):
        raise ValueError("CUDA memory is read by the engine and passed in")
    return int(psutil.virtual_memory().available)


def weight_bytes(entry: Entry, form: Form) -> int | None:
    """Bytes the loaded weights take; from the shape, else the parameter count, else the files."""
    shape = entry.shape
    embedding = shape.embedding if shape else None
    if shape and embedding is not None and shape.parameters is not None:
        if form in ("int4", "int8"):  # all packed, and the embedding once more to look rows up in
            packed = shape.decoder(shape.experts or 1) or 0
            return int((packed + embedding) * _BYTES[form]) + embedding * 2
        return int(shape.parameters * _BYTES[form])
    if entry.parameters is not None:
        return int(entry.parameters * _BYTES[form])
    if entry.bytes is not None:  # hub files are bf16 as published
        return int(entry.bytes / 2 * _BYTES[form])
    return None


def step_bytes(entry: Entry, form: Form) -> int | None:
    """Bytes of weights read to make one token: active experts only, no embedding look-up."""
    count = entry.shape.step_parameters if entry.shape else None
    if count is None:
        count = entry.active_parameters or entry.parameters
    if count is None and entry.bytes is not None:
        count = entry.bytes // 2
    return None if count is None else int(count * _BYTES[form])


def kv_bytes(shape: Shape | None, tokens: int, item: int = 2) -> int | None:
    """Bytes of a KV buffer for `tokens`; windows are not subtracted. `item`: bytes a number."""
    if shape is None or not (shape.layers and shape.kv_heads and shape.head_dim):
        return None
    return 2 * shape.layers * shape.kv_heads * shape.head_dim * item * tokens


def need_bytes(entry: Entry, form: Form, context: int) -> int | None:
    """Weights, a KV buffer of `context` tokens (capped at the model's own) and workspace."""
    weights = weight_bytes(entry, form)
    if weights is None:
        return None
    tokens = min(context, entry.context or context)
    item = 4 if form == "fp32" else 2
    return weights + (kv_bytes(entry.shape, tokens, item) or 0) + WORKSPACE


def fits(need: int | None, free: int) -> Fit:
    """Whether `need` bytes fit in `free`."""
    if need is None:
        return Fit(None, None, free, "size not known before the files are here")
    reason = f"needs {size_text(need)}, {size_text(free)} free"
    return Fit(need <= free, need, free, reason)
