"""Whether a config.json says that its weights are quantised, and which packages run them.

Knows names of methods and packages; nothing of tensors, no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from specdec.errors import LoadError

UNNAMED = "by no method it names"


@dataclass(frozen=True, slots=True)
class Extra:
    """An extra of this project, and what it brings, as pip wants it written."""

    name: str
    packages: Mapping[str, str]


GPTQ = Extra("gptq", {"optimum": "optimum", "gptqmodel": '"gptqmodel<7.7"'})
AWQ = Extra("gptq", {"gptqmodel": GPTQ.packages["gptqmodel"]})
INT8 = Extra("int8", {"optimum-quanto": "optimum-quanto"})

EXTRAS = {"gptq": GPTQ, "awq": AWQ}
"""transformers 5.24 reads AWQ through gptqmodel too. Of other methods it says itself what it lacks.
"""


def method_of(config: Mapping[str, Any]) -> str:
    """How a model's files are quantised, as transformers names it ("gptq", "fp8"); "" if not."""
    text = config.get("text_config")
    inner = text.get("quantization_config") if isinstance(text, Mapping) else None
    found = config.get("quantization_config") or inner
    if not found:
        return ""
    if not isinstance(found, Mapping):
        return UNNAMED
    if found.get("load_in_8bit") or found.get("load_in_4bit"):
        return "bitsandbytes"
    return str(found.get("quant_method") or UNNAMED)


def bits_of(config: Mapping[str, Any]) -> int | None:
    """Bits a quantised weight of these files has, where the config says so."""
    found = config.get("quantization_config")
    bits = found.get("bits") if isinstance(found, Mapping) else None
    return bits if isinstance(bits, int) else None


def check_method(method: str, name: str, weights: str | None = None) -> None:
    """Raises LoadError where model `name` cannot run or be held as asked: before it is read.

    `weights` is the form that was asked for, None for none.
    """
    if weights in ("bf16", "int8"):
        raise LoadError(
            f"{name} is quantised already ({method}) and cannot be held as {weights}.",
            "Leave --weights out, or choose its unquantised version.",
        )
    if method in EXTRAS:
        what = f"{name} is quantised ({method})"
        _require(EXTRAS[method], what, "choose its unquantised version")


def check_int8() -> None:
    """Raises LoadError where what holds a target in 8 bits is not installed."""
    _require(INT8, "--weights int8 was asked for", "leave --weights out")


def installed(package: str) -> bool:
    """Whether a distribution is here; nothing is imported."""
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def _require(extra: Extra, what: str, otherwise: str) -> None:
    missing = [package for package in extra.packages if not installed(package)]
    if missing:
        needs, lacks = " and ".join(extra.packages), " and ".join(missing)
        lines = " ".join(extra.packages.values())
        raise LoadError(
            f"{what}, which needs {needs}; not installed: {lacks}.",
            f'Run: pip install "specdec-chat[{extra.name}]" (or: pip install {lines});'
            f" or {otherwise}.",
        )
