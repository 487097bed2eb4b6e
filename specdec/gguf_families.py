"""GGUF names and metadata -> config.json and transformers' tensor names, a row per family.

Knows llama, qwen2, qwen3 and gemma3; None sends others to transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specdec.errors import LoadError
from specdec.gguf_file import GgufFile

Array = NDArray[np.float32]

_ENDS = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_GEMMA_LAYER = {
    **_LAYER,
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_CLASSES = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "gemma3": "Gemma3ForCausalLM",
}
_GEMMA_27B = 62
"""Layers of the one Gemma 3 that scales scores by hidden / heads; llama.cpp tells it so too."""


@dataclass(frozen=True, slots=True)
class Unpacked:
    """config.json, and each tensor under transformers' name with a call that reads it.

    `origins`: its name in the file, and the heads whose rows are interleaved there (0 = none).
    """

    config: dict[str, Any]
    tensors: dict[str, Callable[[], Array]]
    origins: dict[str, tuple[str, int]]


def unpack(gguf: GgufFile) -> Unpacked | None:
    """None when the family or a tensor is not one of those known here.

    Raises LoadError for scaled positions: GGUF keeps them in ways neither we nor transformers read,
    and dropping them would make another model.
    """
    family = gguf.metadata.get("general.architecture")
    scaling = gguf.metadata.get(f"{family}.rope.scaling.type", "none")
    if scaling != "none" or "rope_freqs.weight" in gguf.tensors:
        raise LoadError(
            f"{gguf.path.name} uses rope scaling ({scaling}), which is not read from GGUF.",
            "Use the safetensors files of the model instead.",
        )
    if family not in _CLASSES:
        return None
    config = _config(gguf, family)
    heads = (config["num_attention_heads"], config["num_key_value_heads"])
    origins: dict[str, tuple[str, int]] = {}
    for name in gguf.tensors:
        ours = _name(name, _GEMMA_LAYER if family == "gemma3" else _LAYER)
        if ours is None:
            return None
        origins[ours] = (name, _interleaved(name, heads) if family == "llama" else 0)
    tensors = {ours: _reader(gguf, *origin, family) for ours, origin in origins.items()}
    return Unpacked(config, tensors, origins)


def _config(gguf: GgufFile, family: str) -> dict[str, Any]:
    def key(name: str, default: Any = None) -> Any:
        value = gguf.metadata.get(f"{family}.{name}", default)
        if value is None:
            raise KeyError(f"{family}.{name}")
        return value

    heads = key("attention.head_count")
    return {
        "architectures": [_CLASSES[family]],
        "model_type": family,
        "dtype": "bfloat16",
        "vocab_size": gguf.tensors["token_embd.weight"].shape[0],
        "hidden_size": key("embedding_length"),
        "intermediate_size": key("feed_forward_length"),
        "num_hidden_layers": key("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": key("attention.head_count_kv", heads),
        "head_dim": key("attention.key_length", key("embedding_length") // heads),
        "max_position_embeddings": key("context_length"),
        # float32 in the file: 9.999999747378752e-06 is what 1e-05 becomes there
        "rms_norm_eps": float(f"{key('attention.layer_norm_rms_epsilon'):.6g}"),
        # llama.cpp writes an output matrix only when it is not the embedding
        "tie_word_embeddings": "output.weight" not in gguf.tensors,
        **(_gemma(key, heads) if family == "gemma3" else _plain(key, family)),
    }


def _plain(key: Callable[..., Any], family: str) -> dict[str, Any]:
    return {
        "hidden_act": "silu",
        "rope_parameters": {"rope_theta": key("rope.freq_base", 10000.0), "rope_type": "default"},
        **({"attention_bias": False, "mlp_bias": False} if family == "llama" else {}),
        **({"use_sliding_window": False} if family != "llama" else {}),
    }


def _gemma(key: Callable[..., Any], heads: int) -> dict[str, Any]:
    """Every sixth layer is full, with a rotation of its own; llama.cpp knows that by the family."""
    width, local = key("embedding_length"), key("rope.freq_base_swa", 10000.0)
    large = key("block_count") == _GEMMA_27B
    return {
        "model_type": "gemma3_text",
        "hidden_activation": "gelu_pytorch_tanh",
        "attention_bias": False,
        "query_pre_attn_scalar": width // heads if large else key("attention.key_length"),
        "sliding_window": key("attention.sliding_window"),
        "final_logit_softcapping": key("final_logit_softcapping", 0.0) or None,
        "sliding_window_pattern": key("attention.sliding_window_pattern", 6),
        "rope_parameters": {
            "full_attention": {"rope_theta": key("rope.freq_base", 1e6), "rope_type": "default"},
            "sliding_attention": {"rope_theta": local, "rope_type": "default"},
        },
    }


def _name(name: str, layer: dict[str, str]) -> str | None:
    if name in _ENDS:
        return _ENDS[name]
    parts = name.split(".")
    if len(parts) == 4 and parts[0] == "blk" and parts[2] in layer:
        return f"model.layers.{parts[1]}.{layer[parts[2]]}.{parts[3]}"
    return None


def _interleaved(name: str, heads: tuple[int, int]) -> int:
    if ".attn_q." in name:
        return heads[0]
    return heads[1] if ".attn_k." in name else 0


def _reader(gguf: GgufFile, name: str, heads: int, family: str) -> Callable[[], Array]:
    if family == "gemma3" and name.endswith("norm.weight"):
        return lambda: gguf.read(name) - 1  # llama.cpp adds the 1 that transformers adds in use
    if heads:
        return lambda: straighten(gguf.read(name), heads)
    return lambda: gguf.read(name)


def straighten(weight: NDArray[Any], heads: int) -> NDArray[Any]:
    """llama.cpp interleaves the rotary halves of llama files (convert_hf_to_gguf.py, permute)."""
    half = weight.shape[0] // heads // 2
    paired = weight.reshape(heads, half, 2, *weight.shape[1:])
    return paired.swapaxes(1, 2).reshape(weight.shape)


def items(unpacked: Unpacked) -> Iterator[tuple[str, Array]]:
    """Tensors one at a time, so that only one is held in float32."""
    for name, read in unpacked.tensors.items():
        yield name, read()
