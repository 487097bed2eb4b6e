"""`--weights int8`: what optimum-quanto makes of each matrix, read one at a time, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from specdec import held, quantised
from specdec.checkpoint import Checkpoint
from specdec.device import SHORT
from specdec.errors import LoadError
from tests.specdec.test_quantised import lacking, load, needs, scores
from tests.tiny import tiny_model

pytestmark = pytest.mark.usefixtures("one_thread")


def test_int8_without_quanto_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lacking(monkeypatch, "optimum-quanto")
    with pytest.raises(LoadError, match="not installed: optimum-quanto") as caught:
        load(tiny_model(tmp_path), weights="int8")
    assert 'pip install "specdec-chat[int8]"' in caught.value.hint


@needs(quantised.INT8)
@pytest.mark.parametrize(
    ("family", "dtype"),
    [("llama", torch.bfloat16), ("qwen2", torch.float32), ("gemma2", torch.bfloat16)],
)
def test_int8_is_near_and_a_third_smaller(tmp_path: Path, family: str, dtype: torch.dtype) -> None:
    folder = tiny_model(tmp_path, family)
    model, plain = load(folder, dtype, weights="int8"), load(folder, torch.float32)
    assert not model.lean
    assert "8 bits" in model.reason
    assert model.dtype == dtype
    layer = 64 * (64 + 32 + 32 + 64) + 3 * 64 * 96
    saved = 2 * layer * (dtype.itemsize - 1) - 2 * (64 + 32 + 32 + 64 + 96 + 96 + 64) * 8
    assert model.weight_bytes <= plain.weight_bytes * dtype.itemsize / 4 - saved
    embedding = model.module.get_input_embeddings().weight
    assert embedding.untyped_storage().nbytes() == embedding.nbytes  # not all of a mapped file
    assert model.quantised is not None
    assert model.quantised.value == "int8"
    assert "asked for" in model.quantised.reason
    assert f"the rest is {SHORT[dtype]}" in model.quantised.reason
    want = scores(plain)
    assert torch.nn.functional.cosine_similarity(scores(model), want).min() > 0.995
    assert not torch.equal(scores(model), want)


@needs(quantised.INT8)
@pytest.mark.parametrize(
    ("family", "options"),
    [("llama", {}), ("qwen2", {"max_shard_size": "100KB"}), ("gemma2", {"dtype": torch.bfloat16})],
)
def test_int8_holds_what_transformers_makes_of_the_mapped_files(
    tmp_path: Path, family: str, options: dict[str, Any]
) -> None:
    from transformers import AutoModelForCausalLM, QuantoConfig

    folder = tiny_model(tmp_path, family, **options)
    ours = load(folder, weights="int8").module
    theirs = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.bfloat16, quantization_config=QuantoConfig(weights="int8")
    )
    assert type(ours) is type(theirs)
    assert not ours.training
    want = dict([*theirs.named_parameters(), *theirs.named_buffers()])
    got = dict([*ours.named_parameters(), *ours.named_buffers()])
    assert list(got) == list(want)
    for name, tensor in want.items():
        assert type(got[name]) is type(tensor), name
        assert got[name].dtype == tensor.dtype, name
        both = zip(held.inside(got[name]), held.inside(tensor), strict=True)
        assert all(torch.equal(mine, other) for mine, other in both), name


@needs(quantised.INT8)
def test_int8_reads_one_matrix_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next is read once the last is quantised: no more than one is held in both forms."""
    layer: Any = pytest.importorskip("optimum.quanto").QLinear
    seen: list[str] = []
    get, freeze = Checkpoint.get, layer.freeze

    def read(self: Checkpoint, name: str, shape: tuple[int, ...]) -> Tensor:
        seen.append(name)
        return get(self, name, shape)

    def frozen(self: Any) -> None:
        seen.append("frozen")
        freeze(self)

    monkeypatch.setattr(Checkpoint, "get", read)
    monkeypatch.setattr(layer, "freeze", frozen)
    load(tiny_model(tmp_path), weights="int8")
    matrices = [name for name in seen if "proj" in name]
    assert len(matrices) == len(set(matrices)) == 2 * 7
    assert all(seen[seen.index(name) + 1] == "frozen" for name in matrices)


@needs(quantised.INT8)
def test_int8_of_a_missing_tensor_is_not_made_up(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path)
    file = folder / "model.safetensors"
    tensors = load_file(file)
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, file, {"format": "pt"})
    with pytest.raises(LoadError, match=r"layers\.1\.mlp\.up_proj\.weight"):
        load(folder, weights="int8")


@needs(quantised.INT8)
def test_int8_of_a_misshapen_tensor_is_refused(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path)
    file = folder / "model.safetensors"
    tensors = load_file(file)
    tensors["model.layers.1.mlp.up_proj.weight"] = torch.zeros(8, 8)
    save_file(tensors, file, {"format": "pt"})
    with pytest.raises(LoadError, match=r"up_proj\.weight is \(8, 8\), .* says \(96, 64\)"):
        load(folder, weights="int8")


@needs(quantised.INT8)
def test_int8_of_a_model_without_linear_layers_is_refused(tmp_path: Path) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_embd=32, n_layer=1, n_head=2, vocab_size=320, n_positions=64)
    GPT2LMHeadModel(config).save_pretrained(tmp_path)
    with pytest.raises(LoadError, match="Nothing in GPT2LMHeadModel"):
        load(tmp_path, weights="int8")
