"""Tiny random-weight models saved as real folders: config, safetensors, byte-level tokenizer.

Knows the file formats only; nothing of how the engine reads them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3Config,
    Gemma3ForCausalLM,
    Gemma3ForConditionalGeneration,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    SmolLM3Config,
    SmolLM3ForCausalLM,
)

FAMILIES: dict[str, tuple[Any, Any]] = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "mistral": (MistralConfig, MistralForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    "smollm3": (SmolLM3Config, SmolLM3ForCausalLM),
    "gemma2": (Gemma2Config, Gemma2ForCausalLM),
    "gemma3": (Gemma3TextConfig, Gemma3ForCausalLM),
    "gemma3-sees": (Gemma3Config, Gemma3ForConditionalGeneration),
    "phi3": (Phi3Config, Phi3ForCausalLM),
}

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TOKENS = 256 + len(SPECIAL)
"""Tokens the tiny tokenizer knows: the bytes first, then the special ones."""

ROWS = 320
"""Rows of the matrices: padded beyond the tokenizer, as real families do."""

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

SIZES: dict[str, Any] = {
    "vocab_size": ROWS,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    "initializer_range": 0.15,  # larger than usual: a tiny model should have opinions
    "tie_word_embeddings": False,
    "bos_token_id": 256,
    "eos_token_id": 258,
    "pad_token_id": 256,
}

GEMMA: dict[str, Any] = {
    "head_dim": 16,
    "query_pre_attn_scalar": 24,  # not head_dim, nor what 1/sqrt(head_dim) would give
    "sliding_window": 20,
    "tie_word_embeddings": True,
}
OWN: dict[str, dict[str, Any]] = {
    "smollm3": {"num_hidden_layers": 4},  # the fourth is not rotated
    # caps that bend these small scores and logits
    "gemma2": {**GEMMA, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0},
    "gemma3": {
        **GEMMA,
        "num_hidden_layers": 3,
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
    },
}
"""What a family's tiny model must have to show what sets it apart; `changes` come after."""
OWN["gemma3-sees"] = OWN["gemma3"]


def tiny_model(
    folder: Path,
    family: str = "llama",
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    max_shard_size: str = "1GB",
    **changes: Any,
) -> Path:
    """Save a tiny model of `family` (a key of FAMILIES) into `folder`; `changes` go to its config.

    The same seed and changes give the same weights. Returns `folder`.
    """
    config_class, model_class = FAMILIES[family]
    values = {**SIZES, **OWN.get(family, {}), **changes}
    config = config_class(**(seeing(values) if family == "gemma3-sees" else values))
    one = 0.0 if family.startswith("gemma") else 1.0  # Gemma's norms hold what is added to 1
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model: PreTrainedModel = model_class(config)
        for name, weight in model.named_parameters():  # biases and norms start at 0 and 1
            if weight.dim() == 1:
                base = one if "norm" in name else 0.0
                weight.data.normal_(base, 0.1)
    model.to(dtype)
    model.save_pretrained(folder, max_shard_size=max_shard_size)
    write_tokenizer(folder)
    generation = {"eos_token_id": [258, 256], "bos_token_id": 256}
    (folder / "generation_config.json").write_text(json.dumps(generation))
    return folder


def seeing(text: dict[str, Any]) -> dict[str, Any]:
    """The config of a model with `text` inside and the smallest eye."""
    eye = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
    return {
        "text_config": text,
        "vision_config": {**eye, "num_attention_heads": 2, "image_size": 28, "patch_size": 14},
        "mm_tokens_per_image": 4,
        **{"image_token_index": 310, "boi_token_index": 311, "eoi_token_index": 312},
    }


def write_tokenizer(folder: Path) -> None:
    """A byte-level tokenizer without merges: id b for byte b, then SPECIAL; every text is legal."""
    folder.mkdir(parents=True, exist_ok=True)
    alphabet = byte_alphabet()
    vocab = {letter: byte for byte, letter in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in SPECIAL])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SPECIAL[0],
        "eos_token": SPECIAL[2],
        "pad_token": SPECIAL[0],
        "chat_template": TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 2048,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def byte_alphabet() -> list[str]:
    """The printable letter GPT-2's byte-level tokenizers use for each byte, in byte order."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    spare = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(spare)) for b in range(256)]
