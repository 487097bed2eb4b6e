"""What torch and huggingface_hub must find before they are imported. Standard library only.

Each is only a default: what the user's environment says stays.
"""

from __future__ import annotations

import os
import warnings

SETTINGS = {
    # Spinning threads starve each other as soon as anything else runs on the machine: one step of
    # SmolLM2 took 2130 ms spinning, 107 ms sleeping, beside nine busy processes (docs/log.md).
    "OMP_WAIT_POLICY": "PASSIVE",
    # Weights in huge pages: fewer page faults while loading, fewer TLB misses in every step.
    "THP_MEM_ALLOC_ENABLE": "1",
    # huggingface_hub tells the hub what runs it, and asks what that could be; both by this alone.
    "HF_HUB_DISABLE_TELEMETRY": "1",
}


def prepare() -> None:
    """Set what is not set; without effect once torch is imported."""
    # int8 drafts need one of these functions; pyproject keeps torch below the first without it.
    warnings.filterwarnings("ignore", message=r"torch\.quantize_per_tensor, .* are deprecated")
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
