"""Reading through transformers: the same tensors as by itself, and none of them held twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file
from torch import Tensor

from specdec.checkpoint import Checkpoint
from specdec.errors import LoadError
from specdec.fallback import load_module
from tests.specdec.test_cache import OTHERS

CPU = torch.device("cpu")
MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
SIZES = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
KINDS: dict[str, Any] = OTHERS | {
    "qwen3_moe": lambda: hf.Qwen3MoeForCausalLM(
        hf.Qwen3MoeConfig(**SIZES, **MOE, intermediate_size=64, num_key_value_heads=2, head_dim=16)
    ),
    "gpt_neox": lambda: hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**SIZES, intermediate_size=64)),
}


def saved(folder: Path, kind: str, **options: Any) -> Path:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        KINDS[kind]().save_pretrained(folder, **options)
    return folder


def load(folder: Path, dtype: torch.dtype) -> Any:
    config = {"model_type": folder.name}
    return load_module(folder, config, CPU, dtype)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the tensors that were read and not mapped."""
    names: list[str] = []
    get = Checkpoint.get

    def seen(self: Checkpoint, name: str, shape: tuple[int, ...]) -> Tensor:
        names.append(name)
        return get(self, name, shape)

    monkeypatch.setattr(Checkpoint, "get", seen)
    return names


@pytest.mark.parametrize("kind", KINDS)
def test_another_dtype_is_read_as_transformers_would(
    tmp_path: Path, kind: str, read: list[str]
) -> None:
    """Each tensor once: mapped, the files would stay in memory beside what is made of them."""
    folder = saved(tmp_path / kind, kind, max_shard_size="100KB")
    ours = load(folder, torch.bfloat16)
    assert len(read) == len(set(read)) > 10
    theirs = hf.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    assert type(ours) is type(theirs)
    assert not ours.training
    got = dict([*ours.named_parameters(), *ours.named_buffers()])
    want = dict([*theirs.named_parameters(), *theirs.named_buffers()])
    assert list(got) == list(want)
    for name, tensor in want.items():
        assert got[name].dtype == tensor.dtype, name
        assert torch.equal(got[name], tensor), name


def test_numbers_that_stay_as_they_are_stay_in_the_file(tmp_path: Path, read: list[str]) -> None:
    load(saved(tmp_path / "olmo2", "olmo2"), torch.float32)
    assert not read


def test_files_that_hold_masks_too_are_left_to_transformers(
    tmp_path: Path, read: list[str]
) -> None:
    folder = saved(tmp_path / "gpt_neox", "gpt_neox")
    file = folder / "model.safetensors"
    mask = {"gpt_neox.layers.0.attention.bias": torch.ones(4, 4, dtype=torch.bool)}
    save_file({**load_file(file), **mask}, file, {"format": "pt"})
    assert load(folder, torch.bfloat16).dtype == torch.bfloat16
    assert not read


@pytest.mark.parametrize("gone", [True, False], ids=["missing", "misshapen"])
def test_a_tensor_that_does_not_fit_is_named(tmp_path: Path, gone: bool) -> None:
    folder = saved(tmp_path / "olmo2", "olmo2")
    file, name = folder / "model.safetensors", "model.layers.1.mlp.up_proj.weight"
    tensors = load_file(file)
    del tensors[name]
    save_file(tensors if gone else {**tensors, name: torch.zeros(8, 8)}, file, {"format": "pt"})
    with pytest.raises(LoadError, match="up_proj" if gone else "does not load"):
        load(folder, torch.bfloat16)
