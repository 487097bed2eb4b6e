"""Which build of torch pip should take on this hardware, and how big it is. Standard library only.

pip itself is asked (a dry run downloads nothing): what an index offers changes, and a mirror or a
wheel folder of the user's own may already offer the right build.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from app.gpu import Hardware

INDEX = "https://download.pytorch.org/whl"
CUDA_TAGS = ((13, 0), (12, 9), (12, 8), (12, 6))
"""CUDA versions PyTorch has published builds for; one that its index lacks is passed over."""
ANSWER_S = 120
REACH_S = 5


@dataclass(frozen=True, slots=True)
class Part:
    """One file pip would fetch."""

    name: str
    version: str
    url: str


@dataclass(frozen=True, slots=True)
class Offer:
    """Torch and what it brings, as pip would take it."""

    parts: tuple[Part, ...]

    @property
    def cuda(self) -> tuple[int, int] | None:
        """The CUDA version these files carry, None for a CPU build."""
        versions = {part.name: part.version for part in self.parts}
        local = re.search(r"\+cu(\d+)(\d)$", versions["torch"])
        if local:
            return int(local[1]), int(local[2])
        for name in ("cuda-toolkit", "nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"):
            if name in versions:
                major, minor = versions[name].split(".")[:2]
                return int(major), int(minor)
        return (0, 0) if any(name.startswith("nvidia-") for name in versions) else None


@dataclass(frozen=True, slots=True)
class Plan:
    """Extra pip arguments for torch (none: plain) and why.

    `ask` is set where the user must agree first: bytes to download, 0 when that is not known.
    """

    args: tuple[str, ...]
    reason: str
    ask: int | None = None


Ask = Callable[[Sequence[str]], Offer | None]
Size = Callable[[Offer], int]


def plan(hardware: Hardware, ask: Ask, size: Size) -> Plan:
    """The build to install. `ask` is pip's dry run with extra arguments; None: it finds nothing."""
    if hardware.kind == "mps":
        return Plan((), "the default build uses the GPU of Apple silicon")
    if hardware.kind == "cpu":
        return _for_cpu(ask, size)
    limit = hardware.cuda or (0, 0)
    offer = ask(())
    if offer and offer.cuda and offer.cuda <= limit:
        return Plan((), f"pip's default build carries CUDA {_dotted(offer.cuda)}")
    for tag in CUDA_TAGS:
        at = ("--index-url", f"{INDEX}/cu{tag[0]}{tag[1]}")
        if tag <= limit and (offer := ask(at)) and offer.cuda == tag:
            return Plan(at, f"PyTorch's own index has a build for CUDA {_dotted(tag)}")
    if limit < CUDA_TAGS[-1]:
        why = f"the driver runs CUDA only up to {_dotted(limit)}; update it to use the GPU"
    else:
        why = "no CUDA build for this driver can be reached, so the GPU stays unused"
    instead = _for_cpu(ask, size)
    return replace(instead, reason=f"{why}; {instead.reason}")


def _for_cpu(ask: Ask, size: Size) -> Plan:
    offer = ask(())
    if offer is None:
        return Plan((), "pip does not say what it would take; trying its default")
    if offer.cuda is None:
        return Plan((), "pip's default is a CPU build")
    at = ("--index-url", f"{INDEX}/cpu")
    if (small := ask(at)) and small.cuda is None:
        return Plan(at, "PyTorch's own index has a CPU build; pip's default carries CUDA")
    return Plan((), "only a CUDA build can be had from here", size(offer))


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def ask_pip(python: Path, requirement: str, extra: Sequence[str]) -> Offer | None:
    """pip's own dry run; None when it finds nothing or does not answer in `ANSWER_S`."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [str(python), "-m", "pip", "install", "--quiet", "--dry-run"]
        command += ["--ignore-installed", "--report", str(report), *extra, requirement]
        if extra:  # PyTorch's index is reached within seconds or not at all
            command += ["--timeout", str(REACH_S), "--retries", "0"]
        try:
            run = subprocess.run(command, capture_output=True, timeout=ANSWER_S, check=False)
        except subprocess.TimeoutExpired:
            return None
        if run.returncode != 0 or not report.exists():
            return None
        return read_report(json.loads(report.read_text(encoding="utf-8")))


def read_report(report: dict[str, Any]) -> Offer | None:
    """Torch and what it brings, from pip's JSON report."""
    parts = tuple(
        Part(row["metadata"]["name"], row["metadata"]["version"], row["download_info"]["url"])
        for row in report["install"]
    )
    return Offer(parts) if any(part.name == "torch" for part in parts) else None


def download_size(offer: Offer) -> int:
    """Bytes of all its files, 0 when any of them is not told."""
    sizes = [_file_size(part.url) for part in offer.parts]
    return sum(sizes) if all(sizes) else 0


def _file_size(url: str) -> int:
    parts = urlsplit(url)
    if parts.scheme == "file":
        return Path(unquote(parts.path)).stat().st_size
    request = urllib.request.Request(url, method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=REACH_S) as answer:
            return int(answer.headers.get("Content-Length", 0))
    except (urllib.error.URLError, TimeoutError, ValueError):
        return 0
