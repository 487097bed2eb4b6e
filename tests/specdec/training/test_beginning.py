"""A head begins as the target's last layer: what it says first is what that layer would."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from specdec.training.batch import BatchDecoder
from specdec.training.beginning import begin
from specdec.training.module import DraftHead, Size
from specdec.training.teacher import taps_of
from tests.specdec.training.kit import target, weights

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("family", ["llama", "phi3"])
@torch.no_grad()
def test_without_the_new_token_it_says_what_the_target_does(family: str, tmp_path: Path) -> None:
    """Of four layers the last tap is what enters the last, so the head is that layer itself."""
    folder = target(tmp_path, family, num_hidden_layers=4)
    held = weights(folder)
    taps = taps_of(4)
    assert taps[-1] == 3
    head = DraftHead(Size.of(held.shape, taps))
    begin(head, folder, held.shape)
    attention, hidden = head.midlayer.self_attn, held.shape.hidden
    for projection in (attention.q_proj, attention.k_proj, attention.v_proj):
        assert projection.weight[:, :hidden].std() > 0.01  # what reads the new token can learn
        projection.weight[:, :hidden] = 0
    ids = torch.randint(0, 256, (1, 20))
    states = BatchDecoder(held, 1, 20, taps).states(ids, torch.zeros(1, dtype=torch.int64), 0)
    said = head(states.taps, torch.randn(1, 20, hidden), 1)[0]
    torch.testing.assert_close(said, states.last, atol=0.05, rtol=0.05)  # copied by way of bf16


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "smollm3", "mistral"])
@torch.no_grad()
def test_every_family_gives_what_it_can(family: str, tmp_path: Path) -> None:
    folder = target(tmp_path, family)
    held = weights(folder)
    torch.manual_seed(0)
    head = DraftHead(Size.of(held.shape, taps_of(held.shape.layers)))
    before = {name: weight.clone() for name, weight in head.named_parameters()}
    begin(head, folder, held.shape)
    same = {n for n, weight in head.named_parameters() if torch.equal(weight, before[n])}
    normed = {f"midlayer.self_attn.{which}_proj.weight" for which in "qk"}
    assert same == {"midlayer.input_layernorm.weight"} | (normed if family == "qwen3" else set())
    assert all(weight.isfinite().all() for weight in head.parameters())
