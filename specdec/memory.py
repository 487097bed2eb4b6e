"""Bytes of weights and KV buffers, and whether they fit; knows shapes, nothing of files or torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import psutil

Form = Literal["fp32", "bf16", "fp16", "int4"]


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
