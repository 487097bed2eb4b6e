"""Parity of the lean decoder with transformers on tiny random models, in fp32."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from specdec.attention import inverse_frequencies
from specdec.families import shape_of
from specdec.loading import Model, load_model
from specdec.target import open_scorer
from tests.tiny import TOKENS, tiny_model

pytestmark = pytest.mark.usefixtures("one_thread")

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
GEMMA3_ROPE = {
    "full_attention": {"rope_type": "linear", "rope_theta": 50000.0, "factor": 8.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 500.0},
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama-one-head-a-group": ("llama", {"num_key_value_heads": 4}),
    "llama-one-kv-head": ("llama", {"num_key_value_heads": 1}),
    "llama-tied": ("llama", {"tie_word_embeddings": True}),
    "llama-3.1": ("llama", {"rope_parameters": LLAMA3}),
    "llama-linear": (
        "llama",
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}},
    ),
    "llama-bias": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "llama-wide-heads": ("llama", {"head_dim": 32}),
    "mistral": ("mistral", {"sliding_window": None}),
    "mistral-narrow-heads": ("mistral", {"head_dim": 8, "sliding_window": None}),
    "qwen2": ("qwen2", {}),
    "qwen2-tied": ("qwen2", {"tie_word_embeddings": True}),
    "qwen3": ("qwen3", {"head_dim": 16}),
    "qwen3-wide-heads": ("qwen3", {"head_dim": 32, "tie_word_embeddings": True}),
    "mistral-window": ("mistral", {"sliding_window": 20}),
    "qwen2-window": (
        "qwen2",
        {"sliding_window": 20, "use_sliding_window": True, "max_window_layers": 1},
    ),
    "qwen3-window": (
        "qwen3",
        {"sliding_window": 70, "use_sliding_window": True, "max_window_layers": 1, "head_dim": 16},
    ),
    "smollm3": ("smollm3", {}),
    "smollm3-window": (
        "smollm3",
        {
            "use_sliding_window": True,
            "sliding_window": 20,
            "no_rope_layers": [1, 0, 1, 0],
            "attention_bias": True,
            "mlp_bias": True,
            "tie_word_embeddings": False,
        },
    ),
    "gemma2": ("gemma2", {}),
    "gemma2-plain-scores": (
        "gemma2",
        {"attn_logit_softcapping": None, "final_logit_softcapping": None, "attention_bias": True},
    ),
    "gemma3": ("gemma3", {}),
    "gemma3-scaled": ("gemma3", {"rope_parameters": GEMMA3_ROPE, "final_logit_softcapping": 3.0}),
    "gemma3-one-token-window": ("gemma3", {"sliding_window": 1}),
    "gemma3-that-also-sees": ("gemma3-sees", {}),
    "phi3": ("phi3", {"rms_norm_eps": 1e-5}),
    "phi3-window": ("phi3", {"sliding_window": 33, "num_key_value_heads": 4}),
    "phi3-half-rotated": (
        "phi3",
        {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}},
    ),
}
IDS = random.Random(3).choices(range(TOKENS), k=150)


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The model in our hands, and transformers' logits for IDS: float32 [150, rows]."""
    family, changes = CASES[request.param]
    folder = tiny_model(tmp_path_factory.mktemp(request.param), family, **changes)
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.inference_mode():
        expected = theirs(torch.tensor([IDS])).logits[0]
    return load_model(folder, torch.device("cpu"), torch.float32), expected


@pytest.mark.parametrize(("runner", "exact"), [("static", True), ("fast", True), ("fast", False)])
def test_logits_are_those_of_transformers(case: Any, runner: Any, exact: bool) -> None:
    model, expected = case
    scorer = open_scorer(model, runner, 8, 256, TOKENS, exact=exact)
    scorer.prefill(IDS[:64])
    scorer.prefill(IDS[64:128])
    scorer.prefill(IDS[128:133])  # prefill in chunks is the whole prompt at once
    for start, end in ((133, 141), (141, 142), (142, 150)):
        logits = scorer.score(IDS[start:end])
        assert logits.shape == (end - start, TOKENS)
        assert logits.dtype == torch.float32
        assert (logits - expected[start:end, :TOKENS]).abs().max() < 1e-4


def test_from_the_first_token_on(case: Any) -> None:
    model, expected = case
    scorer = open_scorer(model, "fast", 4, 256, TOKENS, exact=False)
    for start in range(0, 12, 4):
        logits = scorer.score(IDS[start : start + 4])
        assert (logits - expected[start : start + 4, :TOKENS]).abs().max() < 1e-4


@pytest.mark.parametrize("family", ["qwen2", "gemma2", "gemma3"])
def test_bf16_is_near(tmp_path: Path, family: str) -> None:
    folder = tiny_model(tmp_path, family, dtype=torch.bfloat16)
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    with torch.inference_mode():
        expected = theirs(torch.tensor([IDS[:8]])).logits[0].float()
    model = load_model(folder, torch.device("cpu"), torch.bfloat16)
    logits = open_scorer(model, "static", 8, 64, TOKENS).score(IDS[:8])
    assert (logits - expected[:, :TOKENS]).abs().max() < 0.05 * expected.abs().max()


def test_llama3_frequencies_in_all_three_bands() -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 256,
        "intermediate_size": 1,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "vocab_size": 1,
        "max_position_embeddings": 131072,
    }
    plain, _ = shape_of(config)
    scaled, _ = shape_of(
        {**config, "rope_parameters": {**LLAMA3, "original_max_position_embeddings": 8192}}
    )
    assert plain is not None
    assert scaled is not None
    base = 500000.0 ** (torch.arange(0, 128, 2).float() / -128)
    rope = scaled.kinds[0].rope
    assert rope is not None
    ratio = inverse_frequencies(rope, scaled.head_dim) / base
    assert torch.isclose(ratio[0], torch.tensor(1.0))
    assert torch.isclose(ratio[-1], torch.tensor(1 / 8))
    assert bool(((ratio > 0.13) & (ratio < 0.99)).any())


def model_in(folder: Path, dtype: torch.dtype, **changes: Any) -> Model:
    tiny_model(folder, **changes)
    return load_model(folder, torch.device("cpu"), dtype)


def test_reading_a_prompt_fills_the_same_cache_as_scoring_it(tmp_path: Path) -> None:
    model = model_in(tmp_path, torch.float32)
    read = open_scorer(model, "fast", 8, 256, TOKENS, exact=False)
    scored = open_scorer(model, "fast", 8, 256, TOKENS, exact=False)
    read.prefill(IDS[:40])
    for start in range(0, 40, 8):
        scored.score(IDS[start : start + 8])
    assert torch.allclose(read.score(IDS[40:44]), scored.score(IDS[40:44]), atol=1e-4)


def test_no_gradient_is_kept(tmp_path: Path) -> None:
    model = model_in(tmp_path, torch.float32)
    assert not open_scorer(model, "fast", 8, 100, TOKENS).score([1]).requires_grad
