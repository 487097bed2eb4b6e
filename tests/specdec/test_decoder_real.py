"""The same greedy words as transformers on real weights, where they are on disk.

SPECDEC_TEST_MODELS names a folder that holds one folder a registry id.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from specdec.loading import Model, load_model
from specdec.scorer import Scorer
from specdec.target import open_scorer

pytestmark = [pytest.mark.real, pytest.mark.slow]

MODELS = Path(os.environ.get("SPECDEC_TEST_MODELS", "/root/dl/converted"))
CPU = torch.device("cpu")
NEW = 32
PROMPTS = (
    "Write a Python function that merges two sorted lists.",
    "Name three rivers in Europe and say where they end.",
)


def greedy(scorer: Scorer, prompt: list[int], count: int) -> list[int]:
    while scorer.length < len(prompt) - 1:
        border = (scorer.length // scorer.chunk + 1) * scorer.chunk
        scorer.prefill(prompt[scorer.length : min(border, len(prompt) - 1)])
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(scorer.score(tokens[-1:])[0].argmax()))
    return tokens[len(prompt) :]


@pytest.mark.parametrize("model_id", ["smollm2-135m-instruct", "qwen2.5-coder-0.5b-instruct"])
def test_greedy_words_are_those_of_transformers(model_id: str) -> None:
    folder = MODELS / model_id
    if not folder.is_dir():
        pytest.skip(f"no {model_id} in {MODELS}: set SPECDEC_TEST_MODELS")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    theirs: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model = load_model(folder, CPU, torch.float32)
    for text in PROMPTS:
        encoded = tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, return_tensors="pt"
        )["input_ids"]
        compare(model, theirs, encoded)


def test_gemma_beyond_its_window() -> None:
    """A base model of windowed layers: 700 tokens of prose go on as transformers goes on."""
    folder = MODELS / "gemma-3-270m"
    if not folder.is_dir():
        pytest.skip(f"no gemma-3-270m in {MODELS}: set SPECDEC_TEST_MODELS")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    theirs: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model = load_model(folder, CPU, torch.float32)
    assert model.weights is not None
    assert {kind.window for kind in model.weights.shape.kinds} == {512, None}
    prose = (Path(__file__).parents[2] / "docs/ARCHITECTURE.md").read_text("utf-8")
    compare(model, theirs, tokenizer(prose, return_tensors="pt")["input_ids"][:, :700])


def compare(model: Model, theirs: Any, encoded: torch.Tensor) -> None:
    """Greedy words and the last logits of a prompt [1, n], ours against transformers'."""
    with torch.inference_mode():
        whole = theirs.generate(
            encoded,
            attention_mask=torch.ones_like(encoded),  # else <|im_end|> is taken for padding
            do_sample=False,
            max_new_tokens=NEW,
            eos_token_id=None,
        )
        logits = theirs(encoded).logits[0, -1]
    prompt = encoded[0].tolist()
    scorer = open_scorer(model, "fast", 8, 768, model.vocab, exact=False)
    assert greedy(scorer, prompt, NEW) == whole[0, len(prompt) :].tolist()
    scorer.rewind(len(prompt) - 1)
    ours = scorer.score(prompt[-1:])[0]
    assert (ours - logits).abs().max() < 1e-3 * logits.abs().max()
