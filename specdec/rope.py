"""Rotary embeddings as config.json writes them: old files, new ones, one or one a kind of layer.

Knows config fields; nothing of tensors (`attention` turns heads with them).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

THETA = 10000.0
"""The base where a file and its family name none."""


class UnknownMathsError(Exception):
    """The lean decoder does not compute what this config asks for; the text says what that is."""


@dataclass(frozen=True, slots=True)
class Rope:
    """`kind` default, linear or llama3; `factor` to `original` belong to the last two.

    `share` of each head is turned, its first numbers; the rest knows no position.
    """

    theta: float
    kind: Literal["default", "linear", "llama3"] = "default"
    factor: float = 1.0
    low_freq: float = 1.0
    high_freq: float = 4.0
    original: int = 8192
    share: float = 1.0


def one_rope(config: Mapping[str, Any], partial: bool) -> Rope:
    """The rotation of all layers. Old files have rope_theta and rope_scaling, newer ones one table.

    Raises UnknownMathsError: other kinds, a partial one where the family has none.
    """
    table = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if any(isinstance(value, Mapping) for value in table.values()):
        raise UnknownMathsError("its rotary embedding differs by kind of layer")
    share = float(table.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0)))
    if share != 1.0 and not partial:
        raise UnknownMathsError(f"only {share:g} of each head is rotated")
    return _read(table, config.get("rope_theta"), share)


def two_ropes(config: Mapping[str, Any]) -> tuple[Rope, Rope]:
    """Gemma 3: the rotation of full layers and of sliding ones; scaling is for the full ones.

    Raises UnknownMathsError: other kinds, a table that is not by kind of layer.
    """
    tables = config.get("rope_parameters") or {}
    if set(tables) - {"full_attention", "sliding_attention"}:
        raise UnknownMathsError("its rotary embedding is not given by kind of layer")
    full = {**(tables.get("full_attention") or {}), **(config.get("rope_scaling") or {})}
    sliding = tables.get("sliding_attention") or {}
    for table in (full, sliding):
        if table.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0)) != 1.0:
            raise UnknownMathsError("only a part of each head is rotated")
    return (
        _read(full, config.get("rope_theta"), 1.0),
        _read(sliding, config.get("rope_local_base_freq"), 1.0),
    )


def _read(table: Mapping[str, Any], theta: float | None, share: float) -> Rope:
    base = float(table.get("rope_theta") or theta or THETA)
    kind = table.get("rope_type", table.get("type", "default"))
    if kind == "default":
        return Rope(base, share=share)
    if kind == "linear":
        return Rope(base, "linear", float(table["factor"]), share=share)
    if kind == "llama3":
        return Rope(
            base,
            "llama3",
            float(table["factor"]),
            float(table["low_freq_factor"]),
            float(table["high_freq_factor"]),
            int(table["original_max_position_embeddings"]),
            share,
        )
    raise UnknownMathsError(f"its rotary embedding is of kind {kind}")
