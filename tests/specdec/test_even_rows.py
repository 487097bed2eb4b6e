"""The self-test finds a kernel that rounding hides in nearly all of its results.

SmolLM2 on a processor with bf16 instructions: one row of a matrix takes another kernel than many,
one draw of 4,608 numbers agreed, and 5 of 8 replies with a draft then differed from plain decoding
under a label that promised the same words (docs/log.md, ninth session).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from specdec import selftest
from specdec.decoder import Weights
from specdec.linear import Dense
from specdec.loading import load_model
from tests.tiny import tiny_model

WIDTH = 4


@dataclass
class ByRow:
    """Even on every processor, as each row is taken by itself; but for single rows that are odd."""

    dense: Dense
    odd: Callable[[Tensor], bool] = lambda row: False
    singles: int = 0
    differed: int = 0

    @property
    def width(self) -> int:
        return self.dense.width

    @property
    def nbytes(self) -> int:
        return self.dense.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        y = torch.cat([self.dense(row[None]) for row in x])
        if len(x) == 1:
            self.singles += 1
            if self.odd(x[0]):
                self.differed += 1
                y[0, 0] += 1
        return y


def even(
    tmp_path: Path, dtype: torch.dtype, odd: Callable[[Tensor], bool]
) -> tuple[Weights, ByRow]:
    """A tiny model of such matrices; of the first layer's down projection some rows are odd."""
    weights = load_model(tiny_model(tmp_path), torch.device("cpu"), dtype).weights
    assert weights is not None

    def by_row(matrix: object) -> ByRow:
        assert isinstance(matrix, Dense)
        return ByRow(matrix)

    layers = [
        replace(
            layer,
            qkv=by_row(layer.qkv),
            out=by_row(layer.out),
            gate_up=by_row(layer.gate_up),
            down=by_row(layer.down),
        )
        for layer in weights.layers
    ]
    down = layers[0].down
    assert isinstance(down, ByRow)
    down.odd = odd
    return replace(weights, layers=tuple(layers), head=by_row(weights.head)), down


def test_a_difference_in_few_of_many_draws_is_found(tmp_path: Path) -> None:
    weights, down = even(tmp_path, torch.bfloat16, lambda row: float(row[0]) > 2.3)  # 1 % of noise
    random = torch.Generator().manual_seed(1)
    assert selftest._even_in_matrices(weights, WIDTH, random) == [2, 3]
    assert down.differed == 1
    assert down.singles > 2  # the first draw agreed


@pytest.mark.parametrize(("dtype", "draws"), [(torch.float32, 1), (torch.bfloat16, 256)])
def test_only_what_is_rounded_is_drawn_often(
    tmp_path: Path, dtype: torch.dtype, draws: int
) -> None:
    weights, down = even(tmp_path, dtype, lambda row: False)
    random = torch.Generator().manual_seed(1)
    assert selftest._even_in_matrices(weights, WIDTH, random) == [1, 2, 3]
    assert down.singles == 2 * draws
