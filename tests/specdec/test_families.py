from __future__ import annotations

from typing import Any

import pytest

from specdec.families import shape_of
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


def test_a_missing_number_is_named() -> None:
    with pytest.raises(KeyError, match="hidden_size"):
        shape_of({k: v for k, v in BASE.items() if k != "hidden_size"})
