"""At which numbers of rows is a row's result the same bits, wherever it stands? Asked at load.

Knows scorers; nothing of which one will serve.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from specdec.decoder import Weights
from specdec.errors import DeviceError
from specdec.linear import Fp16, Linear
from specdec.runner import STEP, Layout, LeanScorer

SAMPLE = 2
"""Fewest layers tried, and one of each kind: all have the same shapes, so the same kernels."""

NUMBERS, DRAWS = 1 << 20, 256
"""Rounded numbers compared of a matrix, in so many draws at most.

Where SmolLM2's down projection takes another kernel for one row, about 5 of 40 draws of 4,608 bf16
numbers differ: one draw passed it, and words differed (docs/log.md, ninth session)."""


def even_counts(weights: Weights, width: int, vocab: int) -> tuple[int, ...]:
    """The numbers of rows, ascending to `width`, between which a row's logits do not change a bit.

    Each is tried at both ends of a call of `width` rows, so place and neighbours are tried too:
    matrix by matrix, then through layers of every kind with their attention. Empty when not even
    calls of `width` rows agree. Raises DeviceError when logits are not finite. Nothing is promised
    for positions not tried; this catches kernels that change with the shape.
    """
    sample = _sample(weights, width)
    every = tuple(range(1, width + 1))
    scorer = LeanScorer(sample, Layout(width, every, True), STEP + width, vocab, exact=True)
    random = torch.Generator().manual_seed(1)
    ids = torch.randint(0, min(vocab, weights.shape.rows), (3 * width,), generator=random)
    tokens = [int(token) for token in ids]
    scorer.prefill(tokens[:width])
    rows, others = tokens[width : 2 * width], tokens[2 * width :]
    whole = scorer.score(rows).clone()
    check_finite(whole)
    if width > 1 and not _same(scorer, [*rows[1:], *others[:1]], 1, whole):
        return ()
    even = []
    for count in _even_in_matrices(weights, width, random):
        scorer.rewind(width)
        scorer.score(rows)  # what the last try left in the cache may have other bits
        high = _same(scorer, rows[width - count :], width - count, whole)
        if high and _same(scorer, rows[:count], 0, whole):
            even.append(count)
    return (*even, width)


def _sample(weights: Weights, width: int) -> Weights:
    """Some layers, each kind among them, with windows so short that the rows tried outgrow them."""
    kinds = [layer.kind for layer in weights.layers]
    chosen = sorted({*range(min(SAMPLE, len(kinds))), *(kinds.index(kind) for kind in set(kinds))})
    shape = replace(
        weights.shape,
        layers=len(chosen),
        kinds=tuple(
            kind if kind.window is None else replace(kind, window=min(kind.window, width))
            for kind in weights.shape.kinds
        ),
    )
    return replace(weights, layers=tuple(weights.layers[i] for i in chosen), shape=shape)


def _even_in_matrices(weights: Weights, width: int, random: torch.Generator) -> list[int]:
    """The numbers of rows below `width` at which every matrix gives the bits it gives at `width`.

    Tried on random rows and, where a matrix would round its result and can be asked before it does,
    on what it then gives; else on `NUMBERS` results: rounding hides a difference in nearly all.
    """
    layer, counts = weights.layers[0], list(range(1, width))
    for matrix in (layer.qkv, layer.out, layer.gate_up, layer.down, weights.head):
        dtype = torch.float32 if isinstance(matrix, Fp16) else weights.dtype
        compared = draws = 0
        while counts and compared < NUMBERS and draws < (1 if dtype == torch.float32 else DRAWS):
            x = torch.randn(width, matrix.width, generator=random)
            whole, counts = _agreeing(matrix, x.to(weights.embed.device, dtype), counts)
            compared, draws = compared + whole.numel(), draws + 1
    return counts


def _agreeing(matrix: Linear, x: Tensor, counts: list[int]) -> tuple[Tensor, list[int]]:
    """x W^T, and the `counts` of x's first and of its last rows that give the same bits alone."""
    whole, width = matrix(x), len(x)
    return whole, [
        count
        for count in counts
        if torch.equal(matrix(x[:count]), whole[:count])
        and torch.equal(matrix(x[width - count :]), whole[width - count :])
    ]


def _same(scorer: LeanScorer, rows: list[int], place: int, whole: Tensor) -> bool:
    """Whether `rows`, scored from `place` in the call, get the bits they have in `whole`."""
    scorer.rewind(scorer.layout.width + place)
    logits = scorer.score(rows)
    known = min(len(rows), len(whole) - place)
    return torch.equal(logits[:known], whole[place : place + known])


def check_finite(logits: Tensor) -> None:
    """Raises DeviceError when a row of [m, V] has a NaN, +inf, or no finite number (A28).

    One pass: the largest of a row is NaN if any is, and -inf only if all are.
    """
    if not bool(torch.isfinite(logits.amax(dim=-1)).all()):
        raise DeviceError(
            "The model computed scores that are not numbers.",
            "Try another dtype (--dtype fp32) or --device cpu.",
        )
