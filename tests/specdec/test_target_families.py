"""Exact runners on families whose layers differ: windows, soft caps, layers without rotation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from specdec.loading import Model, load_model
from specdec.runner import STEP
from specdec.target import even_counts, open_scorer
from tests.specdec.test_target import IDS, WIDTH, drafted, plain, read
from tests.tiny import TOKENS, tiny_model

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = torch.device("cpu")
FAMILIES: dict[str, dict[str, Any]] = {
    "gemma3": {},
    "gemma3-wide-window": {"sliding_window": 150},
    "gemma2": {},
    "smollm3": {},
    "phi3": {"sliding_window": 33},
}


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    changes = FAMILIES[request.param]
    return tiny_model(tmp_path_factory.mktemp("m"), request.param.split("-")[0], **changes)


@pytest.mark.parametrize(
    ("runner", "dtype"),
    [("static", torch.bfloat16), ("static", torch.float32), ("fast", torch.float32)],
)
def test_drafting_changes_no_bit(folder: Path, runner: Any, dtype: torch.dtype) -> None:
    scorer = open_scorer(load_model(folder, CPU, dtype), runner, WIDTH, 400, TOKENS)
    assert scorer.exact
    ids = IDS[:300]  # crosses a border of STEP slots, and every window many times over
    one_by_one = plain(scorer, ids, 200)
    for seed in (0, 1):
        assert torch.equal(one_by_one, drafted(scorer, ids, 200, seed))


@pytest.fixture(scope="module")
def gemma(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tiny_model(tmp_path_factory.mktemp("gemma"), "gemma3", sliding_window=100)
    return load_model(folder, CPU, torch.float32)


@pytest.mark.parametrize(("runner", "unread"), [("static", 128), ("fast", 157)])
def test_a_windowed_layer_reads_its_window_only(gemma: Model, runner: Any, unread: int) -> None:
    """What lies before the window may be anything, even NaN, which a mask would let through."""
    scorer: Any = open_scorer(gemma, runner, WIDTH, 400, TOKENS, exact=False)
    read(scorer, IDS[: STEP + 1])
    expected = scorer.score([7]).clone()
    scorer.rewind(STEP + 1)
    scorer._buffers.kv[:2, :, :, :unread] = torch.nan  # layers 0 and 1 have the window
    assert torch.equal(scorer.score([7]), expected)
    scorer.rewind(STEP + 1)
    scorer._buffers.kv[:2, :, :, unread + 1] = torch.nan  # the first one it sees
    assert scorer.score([7]).isnan().any()


def test_the_self_test_tries_every_kind_of_layer(gemma: Model) -> None:
    """The third layer is the only full one: break it there, past the two a plain model needs."""
    weights = gemma.weights
    assert weights is not None
    full = weights.layers[2]
    odd = replace(full, qkv=Uneven(full.qkv))
    broken = replace(weights, layers=(*weights.layers[:2], odd))
    assert even_counts(replace(gemma, weights=weights, even={}), WIDTH, TOKENS)
    assert even_counts(replace(gemma, weights=broken, even={}), WIDTH, TOKENS) == ()


class Uneven:
    """A matrix whose results depend on the place of a row."""

    def __init__(self, matrix: Any) -> None:
        self.matrix, self.width, self.nbytes = matrix, matrix.width, matrix.nbytes

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.matrix(x)
        return out + 0.1 * torch.arange(len(x))[:, None]
