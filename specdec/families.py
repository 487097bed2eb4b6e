"""Which families the lean decoder runs: a table row each, and config.json -> Shape.

Knows config fields and weight names; nothing of tensors, files or kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Bias = Literal["never", "always", "config"]


@dataclass(frozen=True, slots=True)
class Family:
    """What sets one family apart from plain Llama."""

    qkv_bias: Bias = "config"  # "config" reads `attention_bias`
    out_bias: Bias = "config"
    mlp_bias: Bias = "never"
    qk_norm: bool = False
    window: Literal["none", "always", "optional"] = "none"  # "optional" wants use_sliding_window


FAMILIES: dict[str, Family] = {
    "llama": Family(mlp_bias="config"),
    "mistral": Family(qkv_bias="never", out_bias="never", window="always"),
    "qwen2": Family(qkv_bias="always", out_bias="never", window="optional"),
    "qwen3": Family(qk_norm=True, window="optional"),
}


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary embedding: `kind` default, linear or llama3; the rest belongs to the last two."""

    theta: float
    kind: Literal["default", "linear", "llama3"] = "default"
    factor: float = 1.0
    low_freq: float = 1.0
    high_freq: float = 4.0
    original: int = 8192


@dataclass(frozen=True, slots=True)
class Shape:
    """Everything the lean decoder must know of one model."""

    family: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    rows: int  # of the embedding: the tokenizer's tokens and padding
    eps: float
    rope: Rope
    context: int  # most positions; a sliding window cuts it (inside the window all is plain)
    window: int | None
    qk_norm: bool
    qkv_bias: bool
    out_bias: bool
    mlp_bias: bool
    tied: bool


def shape_of(config: Mapping[str, Any]) -> tuple[Shape | None, str]:
    """The shape of a config.json, or None and why only transformers can run it.

    Raises KeyError naming a number that every such model must have.
    """
    kind = str(config.get("model_type", ""))
    family = FAMILIES.get(kind)
    if family is None:
        return None, f"the lean decoder does not know {kind or 'models without model_type'}"
    if config.get("hidden_act", "silu") != "silu":
        return None, f"its activation is {config['hidden_act']}, not silu"
    if config.get("quantization_config"):
        return None, "its files are quantised"
    rope, why = _rope(config)
    if rope is None:
        return None, why
    heads, hidden = int(config["num_attention_heads"]), int(config["hidden_size"])
    window = _window(config, family)
    context = int(config["max_position_embeddings"])
    shape = Shape(
        family=kind,
        layers=int(config["num_hidden_layers"]),
        hidden=hidden,
        intermediate=int(config["intermediate_size"]),
        heads=heads,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head_dim=int(config.get("head_dim") or (128 if kind == "qwen3" else hidden // heads)),
        rows=int(config["vocab_size"]),
        eps=float(config.get("rms_norm_eps", 1e-6)),
        rope=rope,
        context=min(context, window) if window else context,
        window=window,
        qk_norm=family.qk_norm,
        qkv_bias=_bias(family.qkv_bias, config, "attention_bias"),
        out_bias=_bias(family.out_bias, config, "attention_bias"),
        mlp_bias=_bias(family.mlp_bias, config, "mlp_bias"),
        tied=bool(config.get("tie_word_embeddings", False)),
    )
    return shape, ""


def _bias(rule: Bias, config: Mapping[str, Any], field: str) -> bool:
    return rule == "always" or (rule == "config" and bool(config.get(field, False)))


def _window(config: Mapping[str, Any], family: Family) -> int | None:
    if family.window == "none":
        return None
    if family.window == "optional" and not config.get("use_sliding_window", False):
        return None
    kinds = config.get("layer_types")
    if kinds is not None and "sliding_attention" not in kinds:
        return None
    value = config.get("sliding_window", 4096)  # the default in transformers' own config classes
    return int(value) if value else None


def _rope(config: Mapping[str, Any]) -> tuple[Rope | None, str]:
    """Old files have rope_theta and rope_scaling, newer ones one `rope_parameters`."""
    table = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = table.get("rope_type", table.get("type", "default"))
    theta = float(table.get("rope_theta") or config.get("rope_theta") or 10000.0)
    share = table.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0))
    if share != 1.0:
        return None, f"only {share:g} of each head is rotated"
    if kind == "default":
        return Rope(theta), ""
    if kind == "linear":
        return Rope(theta, "linear", float(table["factor"])), ""
    if kind == "llama3":
        return Rope(
            theta,
            "llama3",
            float(table["factor"]),
            float(table["low_freq_factor"]),
            float(table["high_freq_factor"]),
            int(table["original_max_position_embeddings"]),
        ), ""
    return None, f"its rotary embedding is of kind {kind}"


@dataclass(frozen=True, slots=True)
class LayerNames:
    """Tensor names of one layer, as the four families write them."""

    norm_in: str
    q: str
    k: str
    v: str
    out: str
    q_norm: str
    k_norm: str
    norm_mid: str
    gate: str
    up: str
    down: str


EMBED = "model.embed_tokens.weight"
NORM = "model.norm.weight"
HEAD = "lm_head.weight"


def layer_names(index: int) -> LayerNames:
    """Names without ".weight" or ".bias"."""
    layer = f"model.layers.{index}."
    attention, mlp = layer + "self_attn.", layer + "mlp."
    return LayerNames(
        norm_in=layer + "input_layernorm",
        q=attention + "q_proj",
        k=attention + "k_proj",
        v=attention + "v_proj",
        out=attention + "o_proj",
        q_norm=attention + "q_norm",
        k_norm=attention + "k_norm",
        norm_mid=layer + "post_attention_layernorm",
        gate=mlp + "gate_proj",
        up=mlp + "up_proj",
        down=mlp + "down_proj",
    )
