"""What the families call their tensors in the files. Knows names; nothing of their contents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from specdec.families import Shape

PREFIXES = ("model.", "language_model.model.", "model.language_model.")
"""What text models begin with: alone, or inside one that also sees (as the hub has it; as
transformers 4.52 to 4.57 wrote it)."""

EMBED_END = "embed_tokens.weight"
NORM_END = "norm.weight"
EMBED = PREFIXES[0] + EMBED_END
HEAD = "lm_head.weight"


class Named(Protocol):
    """Something that knows which tensors there are."""

    def __contains__(self, name: str) -> bool: ...


def prefix_in(tensors: Named) -> str:
    """The prefix under which there is an embedding; a plain model's when there is none."""
    found = (prefix for prefix in PREFIXES if prefix + EMBED_END in tensors)
    return next(found, PREFIXES[0])


@dataclass(frozen=True, slots=True)
class LayerNames:
    """Tensor names of one layer, without ".weight" or ".bias".

    `qkv` and `gate_up` name one fused matrix, or the parts to put one below the other. The norms
    after attention and MLP, before they are added, are Gemma's; None elsewhere.
    """

    norm_in: str
    qkv: tuple[str, ...]
    out: str
    q_norm: str
    k_norm: str
    norm_out: str | None
    norm_mid: str
    gate_up: tuple[str, ...]
    down: str
    norm_down: str | None


def layer_names(shape: Shape, index: int, prefix: str) -> LayerNames:
    """The names in layer `index`."""
    layer = f"{prefix}layers.{index}."
    attention, mlp = layer + "self_attn.", layer + "mlp."
    qkv = ("qkv_proj",) if shape.fused else ("q_proj", "k_proj", "v_proj")
    gate_up = ("gate_up_proj",) if shape.fused else ("gate_proj", "up_proj")
    after = layer + "post_attention_layernorm"  # Llama's stands before the MLP all the same
    return LayerNames(
        norm_in=layer + "input_layernorm",
        qkv=tuple(attention + name for name in qkv),
        out=attention + "o_proj",
        q_norm=attention + "q_norm",
        k_norm=attention + "k_norm",
        norm_out=after if shape.gemma else None,
        norm_mid=layer + "pre_feedforward_layernorm" if shape.gemma else after,
        gate_up=tuple(mlp + name for name in gate_up),
        down=mlp + "down_proj",
        norm_down=layer + "post_feedforward_layernorm" if shape.gemma else None,
    )
