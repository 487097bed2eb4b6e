"""How torch's CPU threads wait for each other. Standard library only: it must run before torch.

Spinning threads starve each other as soon as anything else runs on the machine: one step of
SmolLM2 took 2130 ms spinning and 107 ms sleeping, beside nine busy processes on two cores
(docs/log.md). A browser page and a download run beside every reply, so sleeping is the default.
"""

from __future__ import annotations

import os


def wait_politely() -> None:
    """Let OpenMP threads sleep at barriers, unless the user's environment says otherwise."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
