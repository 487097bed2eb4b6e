"""A benchmark's result: a card that says where and how, samples, physics. Knows the machine."""

from __future__ import annotations

import os
import platform
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from specdec import catalogue
from specdec.bench.physics import Physics
from specdec.bench.sample import Sample


@dataclass(frozen=True, slots=True)
class Card:
    """Everything that a figure depends on beside the program."""

    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    dtype: str
    settings: Mapping[str, Any]
    seed: int


@dataclass(frozen=True, slots=True)
class Result:
    """`facts` are lines for the reader: which runner, which draft and why."""

    card: Card
    samples: Sequence[Sample]
    physics: Physics
    facts: Sequence[str] = ()


def machine(device: str, threads: int | None, bandwidth: float | None) -> dict[str, Any]:
    """What computes, and how loaded it was: figures of a busy machine are no claim.

    None where it was not measured: the page knows no torch.
    """
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "threads": threads,
        "system": platform.platform(),
        "device": device,
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "read_bandwidth_gb_s": None if bandwidth is None else round(bandwidth / 1e9, 2),
    }


def versions() -> dict[str, str]:
    """This program's and those of what computes."""
    try:
        own = version("specdec-chat")
    except PackageNotFoundError:
        own = _checkout()
    return {"specdec": own, **catalogue.versions()}


def _checkout() -> str:
    """The version of a program that runs from where it was unpacked."""
    project = Path(__file__).resolve().parents[2] / "pyproject.toml"
    if not project.exists():
        return "unknown"
    found: str = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"]
    return found


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
