"""The fallback scorer over transformers' own caches, on tiny models of other families."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

from specdec.cache import FallbackScorer
from specdec.loading import load_model
from specdec.scorer import Scorer
from specdec.target import open_scorer
from tests.tiny import ROWS, TOKENS

pytestmark = pytest.mark.usefixtures("one_thread")

IDS = random.Random(7).choices(range(TOKENS), k=160)
SIZES = {
    "vocab_size": ROWS,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "head_dim": 16,
    "initializer_range": 0.15,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
OTHERS: dict[str, Any] = {
    "olmo2": lambda: hf.Olmo2ForCausalLM(hf.Olmo2Config(**SIZES)),
    "cohere2": lambda: hf.Cohere2ForCausalLM(hf.Cohere2Config(**SIZES, sliding_window=32)),
    "lfm2": lambda: hf.Lfm2ForCausalLM(
        hf.Lfm2Config(**SIZES, layer_types=["conv", "full_attention"])
    ),
    "mamba": lambda: hf.MambaForCausalLM(
        hf.MambaConfig(vocab_size=ROWS, hidden_size=64, num_hidden_layers=2, initializer_range=0.3)
    ),
}


def expected(folder: Path, ids: list[int]) -> torch.Tensor:
    module = hf.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.inference_mode():
        return module(torch.tensor([ids])).logits[0, :, :TOKENS]


def opened(folder: Path, kind: str, capacity: int = 200) -> Scorer:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        OTHERS[kind]().save_pretrained(folder)
    model = load_model(folder, torch.device("cpu"), torch.float32)
    return open_scorer(model, "fast", 8, capacity, TOKENS)


@pytest.mark.parametrize("kind", OTHERS)
def test_scores_like_the_model_itself_and_rewinds_rightly(tmp_path: Path, kind: str) -> None:
    """Also where the cache cannot be cut: counting must not skip (A13)."""
    scorer = opened(tmp_path, kind)
    logits = expected(tmp_path, IDS[:90])
    scorer.prefill(IDS[:64])
    scorer.prefill(IDS[64:80])
    assert torch.allclose(scorer.score(IDS[80:86]), logits[80:86], atol=1e-4)
    scorer.rewind(82)
    assert scorer.length == 82
    there = torch.tensor(IDS[82:88])
    assert torch.allclose(scorer.score_tensor(there), logits[82:88], atol=1e-4)
    scorer.rewind(0)
    assert torch.allclose(scorer.score(IDS[:5]), logits[:5], atol=1e-4)


@pytest.mark.parametrize("kind", OTHERS)
def test_a_call_that_failed_half_way_leaves_nothing(tmp_path: Path, kind: str) -> None:
    """The first layer holds the new tokens then, the last one does not."""
    scorer = opened(tmp_path, kind)
    assert isinstance(scorer, FallbackScorer)
    logits = expected(tmp_path, IDS[:20])
    scorer.prefill(IDS[:10])
    broken = scorer._module.get_submodule("backbone" if kind == "mamba" else "model").layers[1]

    def fail(*given: Any) -> None:
        raise RuntimeError("out of memory")

    hook = broken.register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match="out of memory"):
        scorer.score(IDS[10:14])
    hook.remove()
    assert scorer.length == 0
    scorer.prefill(IDS[:12])
    assert torch.allclose(scorer.score(IDS[12:17]), logits[12:17], atol=1e-4)


def test_rewinding_to_nothing_always_begins_a_new_cache(tmp_path: Path) -> None:
    scorer = opened(tmp_path, "olmo2")
    assert isinstance(scorer, FallbackScorer)
    for _ in range(2):
        before = scorer._cache
        scorer.rewind(0)
        assert scorer._cache is not before


@pytest.mark.parametrize(
    ("kind", "word"), [("cohere2", "32 tokens"), ("lfm2", "state"), ("mamba", "state")]
)
def test_a_cache_that_cannot_be_cut_is_found_when_opened(
    tmp_path: Path, kind: str, word: str
) -> None:
    scorer = opened(tmp_path, kind)
    assert isinstance(scorer, FallbackScorer)
    assert not scorer.can_rewind
    assert word in scorer.rewind_reason
    assert scorer.length == 0


def test_inside_the_window_a_sliding_cache_is_plain(tmp_path: Path) -> None:
    assert opened(tmp_path, "cohere2", capacity=31).can_rewind


def test_a_full_cache_can_be_cut(tmp_path: Path) -> None:
    scorer = opened(tmp_path, "olmo2")
    assert scorer.can_rewind
    assert not scorer.exact


def test_calls_out_of_range_are_refused(tmp_path: Path) -> None:
    scorer = opened(tmp_path, "olmo2", capacity=70)
    with pytest.raises(ValueError, match="chunk ends at 64"):
        scorer.prefill([0] * 65)
    scorer.prefill(IDS[:64])
    assert scorer.room() == 6
    with pytest.raises(ValueError, match="room for 6"):
        scorer.score([0] * 7)
    with pytest.raises(ValueError, match="rewind to 65"):
        scorer.rewind(65)
    assert scorer.reusable == 64
