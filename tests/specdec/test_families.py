from __future__ import annotations

from typing import Any

import pytest
from transformers import AutoConfig

from specdec.families import FAMILIES, shape_of
from specdec.layer_kinds import Kind
from specdec.rope import Rope

BASE: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 320,
    "max_position_embeddings": 32768,
}


def test_reads_the_numbers_and_fills_in_what_old_files_leave_out() -> None:
    shape, reason = shape_of({k: v for k, v in BASE.items() if k != "num_key_value_heads"})
    assert shape is not None
    assert reason == ""
    assert (shape.kv_heads, shape.head_dim, shape.tied) == (4, 16, False)
    assert shape.kinds == (Kind(None, Rope(10000.0)),)
    assert shape.kind_of == (0, 0)
    assert not (shape.qkv_bias)
    assert not (shape.out_bias)
    assert not (shape.mlp_bias)
    assert not (shape.qk_norm)


@pytest.mark.parametrize(
    ("changes", "bits"),
    [
        ({"model_type": "llama", "attention_bias": True, "mlp_bias": True}, (1, 1, 1, 0)),
        ({"model_type": "mistral", "attention_bias": True}, (0, 0, 0, 0)),
        ({"model_type": "qwen2", "attention_bias": False}, (1, 0, 0, 0)),
        ({"model_type": "qwen3", "attention_bias": True}, (1, 1, 0, 1)),
        ({"model_type": "qwen3"}, (0, 0, 0, 1)),
    ],
)
def test_switches_of_each_family(changes: dict[str, Any], bits: tuple[int, ...]) -> None:
    shape, _ = shape_of({**BASE, **changes})
    assert shape is not None
    assert (shape.qkv_bias, shape.out_bias, shape.mlp_bias, shape.qk_norm) == bits


@pytest.mark.parametrize(
    ("changes", "windows"),
    [
        ({"model_type": "mistral", "sliding_window": 4096}, (4096, 4096)),
        ({"model_type": "mistral"}, (4096, 4096)),
        ({"model_type": "mistral", "sliding_window": None}, (None, None)),
        ({"model_type": "phi3"}, (None, None)),
        ({"model_type": "phi3", "sliding_window": 2047}, (2047, 2047)),
        ({"model_type": "qwen2", "sliding_window": 64}, (None, None)),
        ({"model_type": "qwen2", "use_sliding_window": True}, (None, None)),
        ({"model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 1}, (None, 4096)),
        (
            {
                "model_type": "qwen2",
                "use_sliding_window": True,
                "layer_types": ["full_attention"] * 2,
                "max_window_layers": 0,
            },
            (None, None),
        ),
        ({"model_type": "llama", "sliding_window": 64}, (None, None)),
        ({"model_type": "gemma2"}, (4096, None)),
        ({"model_type": "gemma2", "sliding_window": 64}, (64, None)),
        ({"model_type": "gemma3_text"}, (4096, 4096)),
        ({"model_type": "gemma3_text", "sliding_window_pattern": 2}, (4096, None)),
        (
            {
                "model_type": "gemma3_text",
                "layer_types": ["full_attention", "sliding_attention"],
                "sliding_window": 8,
            },
            (None, 8),
        ),
    ],
)
def test_which_layers_have_a_window(changes: dict[str, Any], windows: tuple[int | None]) -> None:
    shape, reason = shape_of({**BASE, **changes})
    assert shape is not None, reason
    assert tuple(shape.kinds[kind].window for kind in shape.kind_of) == windows
    assert shape.context == 32768  # a window no longer cuts it


def test_reads_both_ways_of_writing_rope() -> None:
    scaling = {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    old, _ = shape_of(
        {**BASE, "rope_theta": 500000.0, "rope_scaling": {"type": "llama3", **scaling}}
    )
    new, _ = shape_of(
        {**BASE, "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, **scaling}}
    )
    assert old is not None
    assert new is not None
    rope = Rope(500000.0, "llama3", 8.0, 1.0, 4.0, 8192)
    assert old.kinds == new.kinds == (Kind(None, rope),)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"model_type": "gemma3n"}, "gemma3n"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "yarn"),
        ({"partial_rotary_factor": 0.5}, "0.5"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantised"),
    ],
)
def test_says_why_it_cannot(changes: dict[str, Any], word: str) -> None:
    shape, reason = shape_of({**BASE, **changes})
    assert shape is None
    assert word in reason


NO_MATHS = {
    # training, tokens and bookkeeping
    "architectures", "model_type", "dtype", "transformers_version", "initializer_range",
    "use_cache", "bos_token_id", "eos_token_id", "pad_token_id", "chunk_size_feed_forward",
    "id2label", "label2id", "is_encoder_decoder", "output_attentions", "output_hidden_states",
    "problem_type", "return_dict", "_name_or_path",
    # dropout, which is for training
    "attention_dropout", "resid_pdrop", "embd_pdrop",
    # tensor parallel training of Llama 2; ignored by transformers since 5
    "pretraining_tp",
}  # fmt: skip
"""Fields that change no logit, in any family."""

UNREAD = {
    "gemma3_text": {
        "attn_logit_softcapping",  # its attention reads it nowhere
        "_sliding_window_pattern",  # written beside layer_types, which says it
    },
    "phi3": {"original_max_position_embeddings"},  # for longrope, which is refused
}


def other(value: Any) -> Any:
    """Something else of the same type, legal or not."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, dict):
        return {"rope_type": "default", "rope_theta": 123.0}
    if isinstance(value, list):
        kinds = {"sliding_attention": "full_attention", "full_attention": "sliding_attention"}
        return [kinds.get(value[0], 0), *value[1:]]
    if isinstance(value, str):
        return "another"
    return 7 if value is None else value * 2


@pytest.mark.parametrize("family", FAMILIES)
def test_every_field_is_read_or_refused_or_changes_nothing(family: str) -> None:
    """What a new transformers adds to a config shows here, not as a model that talks nonsense."""
    windows = {"use_sliding_window": True, "sliding_window": 64}
    more = {k: v for k, v in windows.items() if k in AutoConfig.for_model(family).to_dict()}
    saved = AutoConfig.for_model(family, num_hidden_layers=32, **more).to_dict()
    implied = {k: v for k, v in saved.items() if k not in ("layer_types", "no_rope_layers")}
    unread = {
        name
        for name in set(saved) - NO_MATHS
        if all(
            shape_of(base) == shape_of({**base, name: other(base[name])})
            for base in (saved, implied)
            if name in base
        )
    }
    assert unread == UNREAD.get(family, set())


def test_the_text_part_of_a_model_that_sees_as_the_hub_writes_it() -> None:
    """google/gemma-3-4b-it names little; the rest are the defaults of its family."""
    text = {
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "model_type": "gemma3_text",
        "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    }
    shape, reason = shape_of({"model_type": "gemma3", "text_config": text, "vision_config": {}})
    assert shape is not None, reason
    theirs = AutoConfig.for_model(**text)
    assert (shape.heads, shape.kv_heads, shape.head_dim) == (8, 4, 256)
    assert (shape.rows, shape.context, shape.eps) == (262208, 131072, 1e-6)
    assert shape.tied
    local, full = shape.kinds
    assert local == Kind(1024, Rope(10000.0))
    assert full == Kind(None, Rope(1e6, "linear", 8.0))
    slides = [kind == "sliding_attention" for kind in theirs.layer_types]
    assert [shape.kinds[kind].window is not None for kind in shape.kind_of] == slides


def test_a_missing_number_is_named() -> None:
    with pytest.raises(KeyError, match="hidden_size"):
        shape_of({k: v for k, v in BASE.items() if k != "hidden_size"})
