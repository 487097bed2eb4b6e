"""The kinds of layer a model alternates: which have a window, which are told no position.

Knows config fields; nothing of tensors or weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from specdec.rope import Rope, UnknownMathsError

Windows = Literal["none", "all", "deep", "unrotated", "second", "pattern"]
"""Which layers slide where `layer_types` does not say: none, all, those from max_window_layers on,
those without rotation, all but every second, all but every sliding_window_pattern-th."""


@dataclass(frozen=True, slots=True)
class Kind:
    """`window`: a token sees this many tokens, itself included; None = all before it.

    `rope` None: queries and keys are not turned (NoPE).
    """

    window: int | None
    rope: Rope | None


def kinds_of(
    config: Mapping[str, Any], windows: Windows, nope: bool, full: Rope, sliding: Rope
) -> tuple[tuple[Kind, ...], tuple[int, ...]]:
    """The kinds there are, and for each layer the index of its kind.

    `nope`: the family leaves some layers unrotated. Raises UnknownMathsError for kinds of attention
    that are neither full nor sliding, or sliding without a window.
    """
    count = int(config["num_hidden_layers"])
    turned = _turned(config, count) if nope else [True] * count
    window = _window(config, windows)
    layers = [
        Kind(window if slides else None, (sliding if slides else full) if turns else None)
        for slides, turns in zip(_sliding(config, windows, window, turned), turned, strict=True)
    ]
    kinds = tuple(dict.fromkeys(layers))
    return kinds, tuple(kinds.index(layer) for layer in layers)


def _window(config: Mapping[str, Any], windows: Windows) -> int | None:
    if windows == "none" or (windows == "deep" and not config.get("use_sliding_window")):
        return None
    value = config.get("sliding_window")
    return int(value) if value else None


def _turned(config: Mapping[str, Any], count: int) -> list[bool]:
    """SmolLM3: 1 in no_rope_layers means that the layer is rotated."""
    flags = config.get("no_rope_layers")
    if flags is None:
        return [(index + 1) % int(config["no_rope_layer_interval"]) != 0 for index in range(count)]
    if len(flags) < count:
        raise UnknownMathsError("no_rope_layers names fewer layers than it has")
    return [bool(flag) for flag in flags[:count]]


def _sliding(
    config: Mapping[str, Any], windows: Windows, window: int | None, turned: list[bool]
) -> list[bool]:
    """For each layer, whether it has a window."""
    count, types = len(turned), config.get("layer_types")
    if windows == "none":
        return [False] * count
    if types is None:
        return [window is not None and _slides(config, windows, i, turned[i]) for i in range(count)]
    if other := set(types) - {"full_attention", "sliding_attention"}:
        raise UnknownMathsError(f"it has layers of kind {', '.join(sorted(other))}")
    if len(types) < count:
        raise UnknownMathsError("layer_types names fewer layers than it has")
    slides = [kind == "sliding_attention" for kind in types[:count]]
    if any(slides) and window is None:
        raise UnknownMathsError("it has sliding layers and no sliding_window")
    if windows == "all" and window is not None and not all(slides):
        raise UnknownMathsError("its layer_types and sliding_window contradict each other")
    return slides


def _slides(config: Mapping[str, Any], windows: Windows, index: int, turned: bool) -> bool:
    if windows == "deep":
        return index >= int(config["max_window_layers"])
    if windows == "unrotated":
        return bool(config.get("use_sliding_window")) and not turned
    if windows == "second":
        return (index + 1) % 2 != 0
    if windows == "pattern":
        return (index + 1) % int(config["sliding_window_pattern"]) != 0
    return True
