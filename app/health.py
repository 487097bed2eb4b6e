"""An engine's status as the JSON of `GET /health`. Knows nothing of HTTP."""

from __future__ import annotations

import platform
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from specdec.contract import Choice, Status

PACKAGES = ("specdec-chat", "gradio")


def health(status: Status) -> dict[str, Any]:
    """Every key is always there; what is not known yet is null."""
    pair = status.pair
    row: dict[str, Any] = {"state": status.state}
    for name in ("target", "draft", "device", "dtype", "draft_dtype", "runner"):
        choice: Choice | None = getattr(pair, name) if pair else None
        row[name] = choice.value if choice else None
        row[f"{name}_reason"] = choice.reason if choice else None
    row["exact"] = pair.exact if pair else None
    row["phase"] = asdict(status.phase) if status.phase else None
    row["error"] = asdict(status.error) if status.error else None
    row["queue"] = status.queue
    row["versions"] = {"python": platform.python_version(), **_installed(), **status.versions}
    return row


def _installed() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # run from a folder that was never installed
            found[name] = "not installed"
    return found
