"""The head that is trained and the head that drafts are one function, over the same files."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from specdec.heads.reader import load_head
from specdec.heads.runner import HeadRunner
from specdec.training import export
from specdec.training.module import DraftHead, Size
from specdec.training.teacher import frozen_ends, taps_of
from tests.specdec.training.kit import LAYERS, target, weights

pytestmark = pytest.mark.usefixtures("one_thread")

TOKENS, STEPS = 12, 4
CARD = {
    "target": "t", "command": "c", "data": "d", "sequences": 1, "tokens_gathered": 1,
    "held_out": 1, "updates": 1, "tokens_trained": 1, "minutes": 1.0, "device": "cpu", "vocab": 1,
    "covered": 1.0, "acceptance": {"greedy": [0.5], "reject": [0.5], "rows": 1},
}  # fmt: skip


@torch.inference_mode()
def test_a_written_head_loads_and_drafts_what_was_trained(tmp_path: Path) -> None:
    folder = target(tmp_path / "target")
    held = weights(folder)
    torch.manual_seed(2)
    head = DraftHead(Size.of(held.shape, taps_of(LAYERS)))
    for name, weight in head.named_parameters():  # values that bf16 holds
        weight.copy_(torch.randn_like(weight).mul(0.2).add("norm" in name).bfloat16())
    ids = tuple(sorted(torch.randperm(256)[:90].tolist()))
    embed, output = frozen_ends(folder, held.shape)
    rows = output[list(ids)].bfloat16().float()
    export.write_head(tmp_path / "head", head, rows, ids, held.shape.rows, CARD)

    loaded = load_head(tmp_path / "head", held, torch.float32, "dense")
    assert loaded.shape.states_of(LAYERS) == taps_of(LAYERS)
    assert loaded.ids is not None
    assert loaded.ids.tolist() == list(ids)

    tokens = torch.randint(0, 256, (TOKENS + STEPS + 1,))
    taps = torch.randn(TOKENS, 3 * held.shape.hidden)
    outs = head(taps[None], embed[tokens[1 : TOKENS + STEPS]][None], STEPS)
    runner = HeadRunner(loaded, 40, 256)
    for i in range(TOKENS):
        runner.absorb(taps[i : i + 1])
        logits = runner.read([int(tokens[i + 1])])
        for step in range(STEPS):
            mine = outs[step][0, i] @ rows.T
            torch.testing.assert_close(logits[list(ids)], mine, atol=1e-5, rtol=1e-5)
            assert torch.isneginf(logits).sum() == 256 - len(ids)
            if step + 1 < STEPS:
                logits = runner.follow(int(tokens[i + 2 + step]))
        runner.rewind(i + 1, i + 1)
