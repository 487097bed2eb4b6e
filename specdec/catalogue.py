"""The registry as rows for people and programs, and what is installed. No torch."""

from __future__ import annotations

import platform
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from specdec import memory, pairing
from specdec.options import EngineOptions
from specdec.pair import ModelInfo
from specdec.registry import load_registry
from specdec.sources import Store

_PACKAGES = ("torch", "transformers", "huggingface-hub")


def versions() -> dict[str, str]:
    """Versions of Python and of what computes, read without importing any of it."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def rows(options: EngineOptions) -> list[ModelInfo]:
    """Every model, with what is on disk and what fits in this machine's main memory."""
    store = Store(options.data_dir, options.offline)
    registry = load_registry(options.data_dir)
    return pairing.model_rows(registry, store, memory.free_memory("cpu"))


def check_ids(options: EngineOptions, target: str | None, draft: str | None) -> None:
    """Raises UnknownModelError naming the nearest id, before anything heavy is imported."""
    registry = load_registry(options.data_dir)
    if target is not None:
        registry.get(target)
    if draft is not None and draft not in pairing.WITHOUT_FILES:
        registry.get(draft)


def as_json(row: ModelInfo) -> dict[str, Any]:
    """One row; null where nothing was read from a source."""
    return asdict(row)


def table(models: list[ModelInfo]) -> str:
    """Columns for a terminal."""
    head = ("id", "parameters", "licence", "context", "on disk", "fits", "from")
    lines = [head, *(_line(row) for row in models)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _line(row: ModelInfo) -> tuple[str, ...]:
    return (
        row.id,
        _count(row.parameters),
        row.licence or "?",
        str(row.context or "?"),
        "yes" if row.on_disk else "no",
        row.fits.value,
        row.source,
    )


def _count(parameters: int | None) -> str:
    if parameters is None:
        return "?"
    return f"{parameters / 1e9:.1f}B" if parameters >= 10**9 else f"{parameters / 1e6:.0f}M"
