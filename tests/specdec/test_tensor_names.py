"""What tensors are called, and that a model is found under each name it goes by."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from specdec.errors import LoadError
from specdec.loading import load_model
from specdec.tensor_names import PREFIXES, prefix_in
from tests.tiny import tiny_model

CPU = torch.device("cpu")


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_text_model_is_found_by_its_embedding(prefix: str) -> None:
    assert prefix_in({"vision_tower.x", prefix + "embed_tokens.weight"}) == prefix


def test_without_an_embedding_the_plain_name_is_missed() -> None:
    assert prefix_in(()) == "model."


def test_both_ways_of_naming_the_text_part_are_one_model(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path, "gemma3-sees")
    hub, file = load_model(folder, CPU, torch.float32), folder / "model.safetensors"
    tensors = load_file(file)
    assert all(not name.startswith(PREFIXES[2]) for name in tensors)
    renamed = {name.replace(PREFIXES[1], PREFIXES[2]): value for name, value in tensors.items()}
    save_file(renamed, file)
    saved = load_model(folder, CPU, torch.float32)
    assert hub.weights is not None
    assert saved.weights is not None
    assert torch.equal(hub.weights.layers[2].norm_mid, saved.weights.layers[2].norm_mid)
    assert hub.weight_bytes == saved.weight_bytes  # the eye is not read


def test_a_missing_norm_of_gemma_is_named(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path, "gemma3-sees")
    file = folder / "model.safetensors"
    tensors = load_file(file)
    del tensors["language_model.model.layers.1.post_feedforward_layernorm.weight"]
    save_file(tensors, file)
    with pytest.raises(LoadError, match=r"language_model.*post_feedforward_layernorm"):
        load_model(folder, CPU, torch.float32)
