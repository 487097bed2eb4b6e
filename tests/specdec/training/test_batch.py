"""Many sequences at once: each as transformers computes it alone, whatever stands beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from specdec.errors import SettingError
from specdec.training import batch
from specdec.training.batch import BatchDecoder, rows_within
from tests.specdec.training.kit import LAYERS, target, weights

pytestmark = pytest.mark.usefixtures("one_thread")

FAMILIES = {
    "llama": {},
    "qwen2": {},
    "qwen3": {},
    "smollm3": {},
    "mistral": {"sliding_window": 9},
    "phi3": {},
}


def truth(folder: Path, ids: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
    """Every layer's input and the last output after its norm; logits."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.inference_mode():
        out = model(ids[None], output_hidden_states=True)
    return tuple(state[0] for state in out.hidden_states), out.logits[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_at_different_places_are_each_what_transformers_computes(
    family: str, tmp_path: Path
) -> None:
    folder = target(tmp_path, family, **FAMILIES[family])
    taps = (0, 2, 5)
    decoder = BatchDecoder(weights(folder), 3, 40, taps)
    torch.manual_seed(0)
    texts = [torch.randint(0, 256, (n,)) for n in (30, 17, 24)]
    lengths = torch.tensor([19, 6, 13])  # all but the last eleven of each
    padded = torch.zeros(3, 19, dtype=torch.int64)
    for row, (text, length) in enumerate(zip(texts, lengths, strict=True)):
        padded[row, :length] = text[:length]
    first = decoder.states(padded, torch.zeros(3, dtype=torch.int64), 0)
    more = []
    for step in range(11):  # one token each, at three different places
        ids = torch.stack([t[n + step] for t, n in zip(texts, lengths, strict=True)])[:, None]
        starts = lengths + step
        more.append(decoder.states(ids, starts, int(starts.max())))
    for row, text in enumerate(texts):
        states, logits = truth(folder, text)
        length = int(lengths[row])
        last = torch.cat([first.last[row, :length], *(s.last[row] for s in more)])
        seen = torch.cat([first.taps[row, :length], *(s.taps[row] for s in more)])
        torch.testing.assert_close(last, states[-1], atol=2e-4, rtol=2e-4)
        wanted = torch.cat([states[layer] for layer in taps], -1)
        torch.testing.assert_close(seen, wanted, atol=2e-4, rtol=2e-4)
        torch.testing.assert_close(decoder.logits(last), logits, atol=5e-4, rtol=5e-4)


def test_the_number_of_layers_taps_what_leaves_the_last(tmp_path: Path) -> None:
    held = weights(target(tmp_path))
    decoder = BatchDecoder(held, 1, 8, (LAYERS,))
    states = decoder.states(torch.tensor([[1, 2]]), torch.zeros(1, dtype=torch.int64), 0)
    normed = torch.nn.functional.rms_norm(states.taps, (64,), held.norm, held.shape.eps)
    torch.testing.assert_close(normed, states.last)


def test_gemma_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="gemma2"):
        BatchDecoder(weights(target(tmp_path, "gemma2")), 1, 8)


def test_what_stands_side_by_side_fits_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = weights(target(tmp_path))
    shape = held.shape
    monkeypatch.setattr(batch, "KV_BYTES", 2_000_000)
    count = rows_within(held, 40, 64)
    decoder = BatchDecoder(held, count, 40)
    assert decoder.prefix(40).nbytes == 2 * shape.layers * shape.kv_heads * shape.head_dim * 40 * 4
    assert count * decoder.prefix(40).nbytes <= 2_000_000 < (count + 1) * decoder.prefix(40).nbytes
    assert rows_within(held, 40, 3) == 3
    assert rows_within(held, 4_000_000, 64) == 1
