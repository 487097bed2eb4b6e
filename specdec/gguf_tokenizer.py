"""GGUF metadata -> tokenizer.json, chat template and end ids; knows nothing of weights or models.

transformers rebuilds the vocabulary; what it leaves out (digit splitting, NFC, unused rows) is
mended here, because a tokenizer that splits text another way makes another prompt.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from specdec.errors import LoadError
from specdec.gguf_file import GgufFile

CONTROL, UNUSED = 3, 5  # llama.cpp's token types

# The names llama.cpp also takes for the end of a turn or a text, whatever eos_token_id says.
END_TEXTS = {
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<end_of_turn>",
    "<|end|>",
    "<|return|>",
    "<|endofturn|>",
    "<eos>",
    "</s>",
}

_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
# HuggingFaceTB/SmolLM2 tokenizer.json: every digit alone, then GPT-2's split.
_PRE_TOKENIZERS: dict[str, dict[str, Any]] = {
    "smollm": {
        "type": "Sequence",
        "pretokenizers": [
            {"type": "Digits", "individual_digits": True},
            {**_BYTE_LEVEL, "use_regex": True},
        ],
    },
    "gpt-2": {**_BYTE_LEVEL, "use_regex": True},
}
_NFC = frozenset({"qwen2", "deepseek-r1-qwen", "qwen35"})  # Qwen/* tokenizer.json: normalizer NFC


@dataclass(frozen=True, slots=True)
class GgufTokenizer:
    """`json` is a tokenizer.json; `config` a tokenizer_config.json; `end_ids` ascending."""

    json: dict[str, Any]
    config: dict[str, Any]
    end_ids: tuple[int, ...]
    bos_id: int | None
    pad_id: int | None


def read_tokenizer(gguf: GgufFile) -> GgufTokenizer:
    """Rebuild the tokenizer a GGUF file describes.

    Raises LoadError for a split rule nobody here can reproduce: guessing would change the prompt.
    """
    from transformers.integrations.gguf import convert_gguf_tokenizer
    from transformers.integrations.gguf.gguf_tokenizer_mapping import (
        GGUF_PRE_TOKENIZER_SPLITS,
        GGUF_TOKENIZER_MAPPING,
    )

    names = GGUF_TOKENIZER_MAPPING["tokenizer"].items()
    stored = {ours: gguf.metadata.get(f"tokenizer.{theirs}") for theirs, ours in names}
    raw: dict[str, Any] = {key: value for key, value in stored.items() if value is not None}
    if not raw.get("tokens"):
        raise LoadError(f"{gguf.path.name} holds no tokenizer.", "Fetch the model anew.")
    split = raw.get("pre_tokenizer_type")
    known = split in _PRE_TOKENIZERS or split in GGUF_PRE_TOKENIZER_SPLITS
    if raw.get("tokenizer_type") == "gpt2" and not known:
        raise LoadError(
            f"{gguf.path.name} splits text by the rule {split!r}, which is not known here.",
            "Use the safetensors files of the model instead.",
        )
    backend, _ = convert_gguf_tokenizer(gguf.metadata["general.architecture"], raw)
    tokenizer: dict[str, Any] = json.loads(backend.to_str())
    _mend(tokenizer, split, raw)
    return GgufTokenizer(
        json=tokenizer,
        config=_config(gguf, raw),
        end_ids=_end_ids(raw),
        bos_id=raw.get("bos_token_id"),
        pad_id=raw.get("pad_token_id"),
    )


def _mend(tokenizer: dict[str, Any], split: str | None, raw: dict[str, Any]) -> None:
    """Set the split and normaliser of the original, and drop the rows that pad the matrix."""
    if split in _PRE_TOKENIZERS:
        tokenizer["pre_tokenizer"] = _PRE_TOKENIZERS[split]
    if split in _NFC:
        tokenizer["normalizer"] = {"type": "NFC"}
    types = raw.get("token_type") or []
    unused = {i for i, kind in enumerate(types) if kind == UNUSED}
    vocab = tokenizer["model"].get("vocab")
    if unused and isinstance(vocab, dict):
        tokenizer["model"]["vocab"] = {t: i for t, i in vocab.items() if i not in unused}
        tokenizer["added_tokens"] = [t for t in tokenizer["added_tokens"] if t["id"] not in unused]


def _end_ids(raw: dict[str, Any]) -> tuple[int, ...]:
    """eos_token_id, and every control token with an end-of-turn name."""
    types = raw.get("token_type") or [CONTROL] * len(raw["tokens"])
    ids = {
        i
        for i, (text, kind) in enumerate(zip(raw["tokens"], types, strict=True))
        if kind == CONTROL and text in END_TEXTS
    }
    if raw.get("eos_token_id") is not None:
        ids.add(raw["eos_token_id"])
    return tuple(sorted(ids))


def _config(gguf: GgufFile, raw: dict[str, Any]) -> dict[str, Any]:
    texts = {
        name: raw["tokens"][raw[f"{name}_id"]]
        for name in ("bos_token", "eos_token", "unk_token", "pad_token")
        if raw.get(f"{name}_id") is not None
    }
    kept = {
        ours: gguf.metadata[theirs]
        for theirs, ours in (
            ("tokenizer.chat_template", "chat_template"),
            ("tokenizer.ggml.add_bos_token", "add_bos_token"),
        )
        if theirs in gguf.metadata
    }
    return {"tokenizer_class": "PreTrainedTokenizerFast", **texts, **kept}
