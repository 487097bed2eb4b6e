"""Bytes of weights, steps and buffers."""

from __future__ import annotations

import pytest

from specdec.memory import (
    TOKEN,
    WORKSPACE,
    fits,
    free_memory,
    kv_bytes,
    need_bytes,
    size_text,
    step_bytes,
    weight_bytes,
)
from specdec.registry import load_registry
from specdec.shape import Shape
from tests.specdec.store_kit import entry

SHAPE = Shape(
    layers=2, hidden=64, intermediate=96, heads=4, kv_heads=2, head_dim=16, vocab=320, tied=True
)
LAYER = 64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 96  # q, o; k, v; gate, up, down


def test_weights_of_a_counted_shape() -> None:
    tiny = entry(shape=SHAPE.model_dump())
    assert SHAPE.parameters == 2 * LAYER + 320 * 64
    assert weight_bytes(tiny, "bf16") == 2 * (2 * LAYER + 320 * 64)
    assert weight_bytes(tiny, "fp32") == 4 * (2 * LAYER + 320 * 64)


def test_packed_draft_keeps_its_embedding_in_bf16() -> None:
    tiny = entry(shape=SHAPE.model_dump())
    assert weight_bytes(tiny, "int4") == int((2 * LAYER + 320 * 64) * 0.625) + 2 * 320 * 64


def test_fbgemm_pads_rows_to_whole_blocks() -> None:
    """Of int8 the MLP's down matrix (64 x 96, wider than high) stays in two bytes."""
    tiny = entry(shape=SHAPE.model_dump())
    qkv, out, gate_up, down, head = 128, 64, 192, 64, 320  # rows; all are narrower than 512
    layer = qkv + out + gate_up + down
    assert weight_bytes(tiny, "fbgemm") == 2 * 512 * (2 * layer + head) + 2 * 320 * 64
    assert weight_bytes(tiny, "int8") == 512 * (2 * (layer + down) + head) + 2 * 320 * 64
    experts = entry(shape={**SHAPE.model_dump(), "experts": 2})
    assert weight_bytes(experts, "fbgemm") == weight_bytes(experts, "bf16")
    vague = entry(shape={**SHAPE.model_dump(), "kv_heads": None}, parameters=1000)
    assert weight_bytes(vague, "fbgemm") == 2000


def test_a_draft_brings_no_tokenizer_and_no_workspace() -> None:
    tiny = entry(shape=SHAPE.model_dump())
    alone, beside = need_bytes(tiny, "bf16", 100), need_bytes(tiny, "bf16", 100, draft=True)
    assert alone is not None
    assert beside is not None
    assert alone - beside == WORKSPACE + TOKEN * 320


def test_untied_output_matrix_costs_memory_but_no_step() -> None:
    untied = entry(shape={**SHAPE.model_dump(), "tied": False})
    tied = entry(shape=SHAPE.model_dump())
    assert weight_bytes(untied, "bf16") == weight_bytes(tied, "bf16") + 2 * 320 * 64
    assert step_bytes(untied, "bf16") == step_bytes(tied, "bf16") == 2 * (2 * LAYER + 320 * 64)


def test_without_a_shape_the_published_numbers_are_used() -> None:
    assert weight_bytes(entry(parameters=1000), "bf16") == 2000
    assert weight_bytes(entry(bytes=2000), "fp32") == 4000
    assert step_bytes(entry(parameters=1000, active_parameters=100), "bf16") == 200
    assert weight_bytes(entry(), "bf16") is None
    assert need_bytes(entry(), "bf16", 100) is None


def test_real_file_size_of_smollm2() -> None:
    """269,060,552 bytes of safetensors were written for it; norms are what is missing."""
    counted = weight_bytes(load_registry().get("smollm2-135m-instruct"), "bf16")
    assert counted is not None
    assert abs(counted - 269_060_552) < 0.001 * 269_060_552


def test_kv_and_context_cap() -> None:
    assert kv_bytes(SHAPE, 10) == 2 * 2 * 2 * 16 * 2 * 10
    assert kv_bytes(None, 10) is None
    short = entry(shape=SHAPE.model_dump(), context=8)
    long = entry(shape=SHAPE.model_dump(), context=800)
    assert need_bytes(short, "bf16", 800) == need_bytes(long, "bf16", 8)
    wide, half = need_bytes(long, "fp32", 800), need_bytes(long, "bf16", 800)
    assert wide is not None
    assert half is not None
    assert wide - half == 2 * SHAPE.parameters + kv_bytes(SHAPE, 800)  # type: ignore[operator]


def test_reason_says_need_and_free() -> None:
    assert fits(3_100_000_000, 2_200_000_000).reason == "needs 3.1 GB, 2.2 GB free"
    assert fits(3_100_000_000, 2_200_000_000).ok is False
    assert fits(100, 110).ok is True
    assert fits(100, 109).ok is False  # the estimate is within a tenth
    assert fits(None, 5).ok is None


@pytest.mark.parametrize(
    ("count", "text"), [(3_140_000_000, "3.1 GB"), (98_362_432, "98 MB"), (2048, "2 kB")]
)
def test_size_text(count: int, text: str) -> None:
    assert size_text(count) == text


def test_free_memory_is_this_machines_and_cuda_is_asked_elsewhere() -> None:
    assert free_memory("cpu") > 1 << 20
    with pytest.raises(ValueError, match="engine"):
        free_memory("cuda:0")
