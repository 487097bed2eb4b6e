"""Tiny random EAGLE-3 heads in both layouts, and `speculators`' own module beside them.

The recorded parity was made by this file, where that package can be imported (it wants `datasets`,
of which its module uses nothing: an empty one will do):

    PYTHONPATH=. python -m tests.specdec.head_kit

Knows file formats; nothing of how the engine reads them.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoConfig

RECORDED = Path(__file__).parent / "recorded_heads"
STEPS = 3
"""Passes of the parity: the truth, then two further tokens on the head's own states."""

LAYER: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "rope_theta": 10000.0,
}
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "llama": ({}, {"norm_before_residual": True}),
    "plain": ({}, {"norm_before_residual": False}),
    "qwen3": ({"model_type": "qwen3"}, {"fc_norm": True, "norm_output": True}),
    "gpt-oss": ({}, {"norm_before_fc": True, "norm_before_residual": True}),
}
"""Changes to the layer's config and to the head's: each switch is on in one of them and off."""


def config_of(kind: str, drafts: int = 40, **layer: Any) -> dict[str, Any]:
    """A config.json in the layout of speculators."""
    own, flags = KINDS[kind]
    return {
        "architectures": ["Eagle3DraftModel"],
        "speculators_model_type": "eagle3",
        "draft_vocab_size": drafts,
        "eagle_aux_hidden_state_layer_ids": [0, 1, 2],
        "transformer_layer_config": {**LAYER, **own, **layer},
        **flags,
    }


def tensors_of(config: dict[str, Any], seed: int, own_embed: bool = True) -> dict[str, Tensor]:
    """Random weights that fp16 holds exactly, by the names of speculators."""
    layer, drafts = config["transformer_layer_config"], config["draft_vocab_size"]
    hidden, inner, rows = (layer[k] for k in ("hidden_size", "intermediate_size", "vocab_size"))
    queries = layer["num_attention_heads"] * layer["head_dim"]
    keys = layer["num_key_value_heads"] * layer["head_dim"]
    sizes: dict[str, tuple[int, ...]] = {
        "fc": (hidden, 3 * hidden),
        "lm_head": (drafts, hidden),
        "layers.0.self_attn.q_proj": (queries, 2 * hidden),
        "layers.0.self_attn.k_proj": (keys, 2 * hidden),
        "layers.0.self_attn.v_proj": (keys, 2 * hidden),
        "layers.0.self_attn.o_proj": (hidden, queries),
        "layers.0.mlp.gate_proj": (inner, hidden),
        "layers.0.mlp.up_proj": (inner, hidden),
        "layers.0.mlp.down_proj": (hidden, inner),
        "norm": (hidden,),
        **{
            f"layers.0.{name}": (hidden,)
            for name in ("hidden_norm", "input_layernorm", "post_attention_layernorm")
        },
    }
    if own_embed:
        sizes["embed_tokens"] = (rows, hidden)
    if layer["model_type"] == "qwen3":
        sizes |= {f"layers.0.self_attn.{w}_norm": (layer["head_dim"],) for w in "qk"}
    if config.get("norm_before_fc"):
        sizes["input_norm"] = (3 * hidden,)
    if config.get("fc_norm"):
        sizes |= {f"fc_norm.{i}": (hidden,) for i in range(3)}
    noise = torch.Generator().manual_seed(seed)
    made: dict[str, Tensor] = {}
    for name, size in sizes.items():
        spread = 0.2 if len(size) == 1 else 1.0 / size[1] ** 0.5
        values = torch.randn(size, generator=noise) * spread + (len(size) == 1)
        made[f"{name}.weight"] = values.half()
    if drafts != rows:
        known = torch.randperm(rows, generator=noise)[:drafts].sort().values
        made["d2t"] = known - torch.arange(drafts)
        made["t2d"] = torch.isin(torch.arange(rows), known)
    return made


def write_head(
    folder: Path, config: dict[str, Any], tensors: dict[str, Tensor], layout: str = "speculators"
) -> Path:
    """A head's folder; in the layout of SafeAILab/EAGLE from the same config and tensors."""
    folder.mkdir(parents=True, exist_ok=True)
    if layout == "eagle":
        flat = {k: v for k, v in config.items() if k not in ("speculators_model_type", "draft")}
        config = {**flat, **flat.pop("transformer_layer_config")}
        tensors = {name.replace("layers.0.", "midlayer."): x for name, x in tensors.items()}
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    save_file({name: x.contiguous() for name, x in tensors.items()}, folder / "model.safetensors")
    return folder


def inputs(config: dict[str, Any], seed: int, rows: int = 12) -> tuple[Tensor, Tensor]:
    """States [rows, 3 * hidden] and the tokens after them, int64 [rows + STEPS]."""
    noise = torch.Generator().manual_seed(seed)
    layer = config["transformer_layer_config"]
    states = torch.randn(rows, 3 * layer["hidden_size"], generator=noise)
    ids = torch.randint(layer["vocab_size"], (rows + STEPS,), generator=noise)
    return states, ids


def theirs(config: dict[str, Any], tensors: dict[str, Tensor], states: Tensor, ids: Tensor) -> Any:
    """Logits of speculators' own module, fp32 [STEPS, rows, drafts]; rows past the end are 0."""
    theirs = importlib.import_module("speculators.models.eagle3")
    own = {k: v for k, v in config.items() if k != "transformer_layer_config"}
    layer = dict(config["transformer_layer_config"])
    block = AutoConfig.for_model(**layer)
    block._attn_implementation = "eager"
    model = theirs.Eagle3DraftModel(
        theirs.Eagle3SpeculatorConfig(transformer_layer_config=block, **own)
    )
    missing, extra = model.load_state_dict(
        {n: x.float() if x.is_floating_point() else x for n, x in tensors.items()}, strict=False
    )
    assert not extra
    assert {name.split(".")[0] for name in missing} <= {"verifier_norm", "verifier_lm_head"}
    seen: list[Tensor] = []
    model.lm_head.register_forward_hook(lambda _m, _i, out: seen.append(out[0].detach()))
    rows = len(states)
    with torch.no_grad():
        model.eval()(
            states[None], ids[None, :rows], torch.zeros(1, rows, dtype=torch.long), ttt_steps=STEPS
        )
    return torch.stack(seen)


def record() -> None:
    """Write what the recorded parity test reads."""
    for seed, kind in enumerate(KINDS):
        config = config_of(kind)
        tensors = tensors_of(config, seed)
        folder = write_head(RECORDED / kind, config, tensors)
        states, ids = inputs(config, 100 + seed)
        logits = theirs(config, tensors, states, ids)
        save_file(
            {"states": states, "ids": ids, "logits": logits}, folder / "speculators.safetensors"
        )


if __name__ == "__main__":
    record()
