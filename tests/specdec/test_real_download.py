"""The real road of a first start: SmolLM2 out of its wheel, converted, and a sentence from it."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from specdec.pair import Phase
from specdec.registry import load_registry
from specdec.sources import Store


@pytest.mark.real
def test_smollm2_is_fetched_converted_and_speaks(tmp_path: Path) -> None:
    seen: list[Phase] = []
    entry = load_registry().get("smollm2-135m-instruct")
    got = Store(tmp_path).ready(entry, seen.append)
    assert got.gguf is None
    assert [name for name in ("fetching", "converting") if name in {p.name for p in seen}]
    tokenizer = AutoTokenizer.from_pretrained(got.folder)
    model = AutoModelForCausalLM.from_pretrained(got.folder)
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )
    reply = model.generate(**prompt, max_new_tokens=12, do_sample=False)
    assert "Paris" in tokenizer.decode(reply[0])
    assert [path.name for path in (tmp_path / "downloads").iterdir()] == [f"{entry.id}.lock"]
