"""What hardware the torch build should be for, before torch is there. Standard library only."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import Literal

Kind = Literal["cuda", "mps", "cpu"]


@dataclass(frozen=True, slots=True)
class Hardware:
    """`cuda` is the newest CUDA the driver runs, as (major, minor)."""

    kind: Kind
    system: str  # "Linux", "Windows", "Darwin"
    reason: str
    cuda: tuple[int, int] | None = None


def look() -> Hardware:
    """Ask nvidia-smi; on a Mac, the processor."""
    system = platform.system()
    if system == "Darwin":
        if platform.machine() == "arm64":
            return Hardware("mps", system, "Apple silicon")
        return Hardware("cpu", system, "an Intel Mac has no usable GPU")
    program = shutil.which("nvidia-smi")
    if program is None:
        return Hardware("cpu", system, "no NVIDIA driver found (nvidia-smi is missing)")
    try:
        run = subprocess.run([program], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Hardware("cpu", system, f"nvidia-smi does not answer ({error})")
    return read_smi(run.returncode, run.stdout + run.stderr, system)


def read_smi(code: int, text: str, system: str) -> Hardware:
    """What nvidia-smi's table says."""
    version = re.search(r"CUDA Version:\s*(\d+)\.(\d+)", text)
    if code != 0 or version is None:
        line = next((line.strip() for line in text.splitlines() if line.strip()), "no output")
        return Hardware("cpu", system, f"nvidia-smi reports no usable GPU: {line}")
    driver = re.search(r"Driver Version:\s*([\d.]+)", text)
    cuda = int(version[1]), int(version[2])
    name = f"NVIDIA driver {driver[1] if driver else 'unknown'}, CUDA up to {cuda[0]}.{cuda[1]}"
    return Hardware("cuda", system, name, cuda)
