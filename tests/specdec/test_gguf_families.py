"""A Gemma 3 file read by our table; transformers is the judge. The others: `test_conversion`."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from specdec.families import shape_of
from specdec.gguf_families import items, unpack
from specdec.gguf_file import GgufFile
from tests.specdec.test_conversion import write_gguf


def test_gemma_is_what_transformers_reads(tmp_path: Path) -> None:
    """llama.cpp adds 1 to every norm, and calls the third of a block ffn_norm."""
    ours = unpack(GgufFile(write_gguf(tmp_path / "tiny.gguf", "gemma3")))
    assert ours is not None
    theirs = AutoModelForCausalLM.from_pretrained(
        tmp_path, gguf_file="tiny.gguf", dtype=torch.float32
    )
    state = theirs.state_dict()
    assert set(state) - {"lm_head.weight"} == set(ours.tensors)
    for name, array in items(ours):
        assert torch.allclose(torch.tensor(array), state[name], atol=1e-6), name
    shape, reason = shape_of(ours.config)
    told = {"rms_norm_eps": 1e-5, "query_pre_attn_scalar": 16}  # transformers leaves it at 256
    expected, _ = shape_of({**theirs.config.to_dict(), **told, "quantization_config": None})
    assert reason == ""
    assert shape == expected


def large(**more: Any) -> Any:
    """A file's header with the sizes of the 27B."""
    sizes = {
        "embedding_length": 5376,
        "feed_forward_length": 21504,
        "block_count": 62,
        "context_length": 131072,
        "attention.head_count": 32,
        "attention.head_count_kv": 16,
        "attention.key_length": 128,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "attention.sliding_window": 1024,
    }
    metadata = {f"gemma3.{name}": value for name, value in {**sizes, **more}.items()}
    return SimpleNamespace(
        path=Path("large.gguf"),
        metadata={"general.architecture": "gemma3", **metadata},
        tensors={"token_embd.weight": SimpleNamespace(shape=(262208, 5376))},
    )


@pytest.mark.parametrize(("layers", "scalar"), [(62, 168), (48, 128)])
def test_the_27b_scales_scores_its_own_way(layers: int, scalar: int) -> None:
    found = unpack(large(block_count=layers))
    assert found is not None
    assert found.config["query_pre_attn_scalar"] == scalar


def test_a_soft_cap_in_the_file_is_read() -> None:
    found = unpack(large(final_logit_softcapping=30.0))
    assert found is not None
    shape, _ = shape_of(found.config)
    assert shape is not None
    assert shape.logit_cap == 30.0
    assert shape.kinds[0].window == 1024
