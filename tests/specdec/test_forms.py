"""What the other form would give: which blocks are seen, and the arithmetic of the sentence."""

from __future__ import annotations

from pathlib import Path

import gguf
import pytest
import torch

from specdec.conversion import convert
from specdec.folder import PACKED
from specdec.forms import Costs, Share, blocks_of, held, measure, other_form, sentence
from specdec.loading import load_model
from specdec.pair import Choice
from tests.specdec.test_conversion import HIDDEN, INNER, write_gguf
from tests.tiny import tiny_model

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = torch.device("cpu")
Q4 = gguf.GGMLQuantizationType.Q4_0
LAYER = HIDDEN * (HIDDEN + 32 + 32 + HIDDEN) + 3 * HIDDEN * INNER


def converted(base: Path, kind: gguf.GGMLQuantizationType = Q4, tied: bool = False) -> Path:
    file = write_gguf(base / "tiny.gguf", kind=kind, tied=tied)
    folder = convert(file, base / "model")
    file.replace(folder / PACKED)
    return folder


@pytest.mark.parametrize("tied", [True, False])
def test_blocks_are_seen_by_their_values(tmp_path: Path, tied: bool) -> None:
    folder = converted(tmp_path, tied=tied)
    model = load_model(folder, CPU, torch.bfloat16)
    assert blocks_of(folder, model) == Share(LAYER + 261 * HIDDEN, 0)


@pytest.mark.parametrize("kind", ["Q8_0", "Q5_0", "Q5_1", "F16"])
def test_other_kinds_are_not_taken_for_blocks(tmp_path: Path, kind: str) -> None:
    folder = converted(tmp_path, gguf.GGMLQuantizationType[kind])
    model = load_model(folder, CPU, torch.bfloat16)
    assert blocks_of(folder, model).blocks == 0
    assert other_form(model, folder, "dense", 0.01) == ""


def test_nothing_is_said_where_nothing_is_known(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path)
    assert other_form(load_model(folder, CPU, torch.float32), folder, "dense", 0.01) == ""
    assert other_form(load_model(folder, CPU, torch.bfloat16), folder, "dense", 0.01) == ""


@pytest.mark.parametrize("packed", [True, False])
def test_the_form_that_is_not_loaded_is_named(tmp_path: Path, packed: bool) -> None:
    folder = converted(tmp_path)
    model = load_model(folder, CPU, torch.bfloat16, packed=folder / PACKED if packed else None)
    text = other_form(model, folder, "dense", 0.01)
    assert f"--weights {'bf16' if packed else 'packed'}" in text
    costs = measure(model, "dense")
    assert costs.packed > 0
    assert costs.dense > 0


def test_speed_follows_from_the_share_of_a_step() -> None:
    """Matrices take 80 of 100 ms, three quarters of them could be packed at a quarter the cost."""
    share, costs = Share(75, 25), Costs(packed=0.2e-3, dense=0.8e-3)
    text = sentence(share, costs, 0.1, packed=False)
    assert "about 1.8x" in text  # 100 / (20 + 15 + 20)
    assert "7.8 bits a weight" in text
    back = sentence(share, costs, 0.055, packed=True)
    assert "about 0.6x" in back  # 55 / 100
    assert "16 bits" in back


def test_a_noisy_measurement_promises_no_more_than_the_matrices_give() -> None:
    text = sentence(Share(100, 0), Costs(0.1, 1.0), 1e-6, packed=False)
    assert "about 6.9x" in text  # 1 / (0.05 + 0.095)


def test_the_packed_form_is_said_with_its_share(tmp_path: Path) -> None:
    folder = converted(tmp_path)
    dense = Choice("bf16", "as published")
    assert held(load_model(folder, CPU, torch.bfloat16), dense) == dense
    packed = load_model(folder, CPU, torch.bfloat16, packed=folder / PACKED)
    choice = held(packed, dense)
    assert choice.value == "packed"
    assert "100% of the weights" in choice.reason
