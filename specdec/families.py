"""Which families the lean decoder runs: a table row each, and config.json -> Shape.

Knows config fields and weight names; nothing of tensors, files or kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from specdec.layer_kinds import Kind, Windows, kinds_of
from specdec.quantised import method_of
from specdec.rope import UnknownMathsError, one_rope, two_ropes

Bias = Literal["never", "always", "config"]
Activation = Literal["silu", "gelu_tanh"]

_ACTIVATIONS: dict[str, Activation] = {"silu": "silu", "gelu_pytorch_tanh": "gelu_tanh"}


@dataclass(frozen=True, slots=True)
class Family:
    """What sets one family apart from plain Llama; `defaults` is what its files may leave out.

    `gemma`: norms multiply by 1 + w and stand after attention and MLP too, the embedding is scaled
    by the root of its width, scores by that of query_pre_attn_scalar.
    """

    qkv_bias: Bias = "config"  # "config" reads `attention_bias`
    out_bias: Bias = "config"
    mlp_bias: Bias = "never"
    qk_norm: bool = False
    windows: Windows = "none"
    nope: bool = False  # some layers are not rotated
    partial: bool = False  # of each head, a part may be rotated
    two_ropes: bool = False
    gemma: bool = False
    score_cap: bool = False  # reads attn_logit_softcapping
    fused: bool = False  # files hold qkv_proj and gate_up_proj
    defaults: Mapping[str, Any] = field(default_factory=dict)


_GEMMA = {
    "hidden_activation": "gelu_pytorch_tanh",
    "head_dim": 256,
    "num_key_value_heads": 4,
    "query_pre_attn_scalar": 256,
    "sliding_window": 4096,
    "tie_word_embeddings": True,
}
_QWEN = {"sliding_window": 4096, "max_window_layers": 28, "num_key_value_heads": 32}

FAMILIES: dict[str, Family] = {
    "llama": Family(mlp_bias="config"),
    "mistral": Family(
        qkv_bias="never",
        out_bias="never",
        windows="all",
        defaults={"sliding_window": 4096, "num_key_value_heads": 8},
    ),
    "qwen2": Family(qkv_bias="always", out_bias="never", windows="deep", defaults=_QWEN),
    "qwen3": Family(qk_norm=True, windows="deep", defaults={**_QWEN, "head_dim": 128}),
    "smollm3": Family(
        mlp_bias="config",
        windows="unrotated",
        nope=True,
        defaults={
            "rope_theta": 2e6,
            "no_rope_layer_interval": 4,
            "num_key_value_heads": 4,
            "tie_word_embeddings": True,
        },
    ),
    "gemma2": Family(
        windows="second",
        gemma=True,
        score_cap=True,
        defaults={**_GEMMA, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
    ),
    "gemma3_text": Family(
        qk_norm=True,
        windows="pattern",
        two_ropes=True,
        gemma=True,  # no score_cap: its attn_logit_softcapping is read nowhere in transformers
        defaults={
            **_GEMMA,
            "rope_theta": 1e6,
            "sliding_window_pattern": 6,
            "num_attention_heads": 8,  # from here on, what the 4B to 27B leave out
            "vocab_size": 262208,
            "max_position_embeddings": 131072,
        },
    ),
    "phi3": Family(
        qkv_bias="never",
        out_bias="never",
        windows="all",
        partial=True,
        fused=True,
        defaults={"rms_norm_eps": 1e-5},
    ),
}

READS = {"gemma3": "gemma3_text"}
"""Models that also see, and the family that reads their text."""


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
    context: int  # most positions
    kinds: tuple[Kind, ...]
    kind_of: tuple[int, ...]  # for each layer, its place in `kinds`
    activation: Activation
    qk_norm: bool
    qkv_bias: bool
    out_bias: bool
    mlp_bias: bool
    tied: bool
    fused: bool
    gemma: bool
    scale: float | None  # of attention scores; None = 1 / sqrt(head_dim)
    score_cap: float | None  # a score s becomes cap * tanh(s / cap), a logit likewise
    logit_cap: float | None
    by_hand: bool = False  # attention in plain products: torch's own is wrong on this device


def shape_of(config: Mapping[str, Any]) -> tuple[Shape | None, str]:
    """The shape of a config.json, or None and why only transformers can run it.

    Raises KeyError naming a number that every such model must have.
    """
    if method := method_of(config):
        return None, f"its files are quantised ({method})"
    kind = str(config.get("model_type", ""))
    if kind in READS:
        kind, tied = READS[kind], config.get("tie_word_embeddings", True)
        config = {**(config.get("text_config") or {}), "tie_word_embeddings": tied}
    family = FAMILIES.get(kind)
    if family is None:
        return None, f"the lean decoder does not know {kind or 'models without model_type'}"
    if config.get("use_bidirectional_attention"):
        return None, "its tokens see those after them"
    try:
        return _shape(kind, family, {**family.defaults, **config}), ""
    except UnknownMathsError as reason:
        return None, str(reason)


def _shape(kind: str, family: Family, config: Mapping[str, Any]) -> Shape:
    heads, hidden = int(config["num_attention_heads"]), int(config["hidden_size"])
    if family.two_ropes:
        full, sliding = two_ropes(config)
    else:
        full = sliding = one_rope(config, family.partial)
    kinds, kind_of = kinds_of(config, family.windows, family.nope, full, sliding)
    return Shape(
        family=kind,
        layers=int(config["num_hidden_layers"]),
        hidden=hidden,
        intermediate=int(config["intermediate_size"]),
        heads=heads,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head_dim=int(config.get("head_dim") or hidden // heads),
        rows=int(config["vocab_size"]),
        eps=float(config.get("rms_norm_eps", 1e-6)),
        context=int(config["max_position_embeddings"]),
        kinds=kinds,
        kind_of=kind_of,
        activation=_activation(config, family),
        qk_norm=family.qk_norm,
        qkv_bias=_bias(family.qkv_bias, config, "attention_bias"),
        out_bias=_bias(family.out_bias, config, "attention_bias"),
        mlp_bias=_bias(family.mlp_bias, config, "mlp_bias"),
        tied=bool(config.get("tie_word_embeddings", False)),
        fused=family.fused,
        gemma=family.gemma,
        scale=float(config["query_pre_attn_scalar"]) ** -0.5 if family.gemma else None,
        score_cap=_cap(config, "attn_logit_softcapping") if family.score_cap else None,
        logit_cap=_cap(config, "final_logit_softcapping") if family.gemma else None,
    )


def _activation(config: Mapping[str, Any], family: Family) -> Activation:
    name = config["hidden_activation"] if family.gemma else config.get("hidden_act", "silu")
    if name not in _ACTIVATIONS:
        raise UnknownMathsError(f"its activation is {name}, not {' or '.join(_ACTIVATIONS)}")
    return _ACTIVATIONS[name]


def _bias(rule: Bias, config: Mapping[str, Any], name: str) -> bool:
    return rule == "always" or (rule == "config" and bool(config.get(name, False)))


def _cap(config: Mapping[str, Any], name: str) -> float | None:
    value = config.get(name)
    return None if value is None else float(value)
