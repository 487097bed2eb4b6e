"""Attention and rotation against the plainest formula, one row and one head at a time."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from specdec.attention import Step, attend, inverse_frequencies, make_step, make_turns, rotate
from specdec.families import Shape, shape_of
from specdec.rope import Rope

HEADS, KV, SIZE = 6, 2, 8


def shape(window: int | None = None, cap: float | None = None) -> Shape:
    made, reason = shape_of(
        {
            "model_type": "gemma2",
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": 2,
            "num_attention_heads": HEADS,
            "num_key_value_heads": KV,
            "head_dim": SIZE,
            "vocab_size": 10,
            "max_position_embeddings": 4096,
            "query_pre_attn_scalar": 11,
            "layer_types": ["sliding_attention" if window else "full_attention"] * 2,
            "sliding_window": window,
            "attn_logit_softcapping": cap,
        }
    )
    assert made is not None, reason
    return made


def naive(of: Shape, query: torch.Tensor, cache: torch.Tensor, start: int) -> torch.Tensor:
    window, out = of.kinds[0].window or 10**6, torch.zeros(len(query), HEADS, SIZE)
    for row in range(len(query)):
        seen = slice(max(0, start + row + 1 - window), start + row + 1)
        for head in range(HEADS):
            keys, values = cache[:, head // (HEADS // KV), seen]
            scores = keys @ query[row, head] * 11**-0.5
            if of.score_cap:
                scores = of.score_cap * torch.tanh(scores / of.score_cap)
            out[row, head] = scores.softmax(0) @ values
    return out.flatten(1)


@pytest.mark.parametrize("window", [None, 1, 5, 20, 300, 5000])
@pytest.mark.parametrize("cap", [None, 1.5])
@pytest.mark.parametrize(
    ("start", "rows", "slots", "tile", "floor"),
    [
        (0, 1, 1, 1, 0),
        (0, 8, 8, 8, 0),
        (64, 64, 128, 64, 64),  # a chunk of a prompt
        (1000, 1, 1001, 1, 1000),  # plain, one row
        (1000, 3, 1003, 3, 1000),
        (1030, 8, 1280, 4, 1024),  # fixed: two tiles
        (1030, 5, 1280, 4, 1024),  # the second tile padded
        (1030, 4, 2048, 4, 0),  # whole kernel blocks lie before the window, or after the rows
    ],
)
def test_rows_see_what_they_should(
    window: int | None, cap: float | None, start: int, rows: int, slots: int, tile: int, floor: int
) -> None:
    of = shape(window, cap)
    random = torch.Generator().manual_seed(rows)
    cache = torch.randn(2, KV, slots, SIZE, generator=random)
    query = 3 * torch.randn(rows, HEADS, SIZE, generator=random)
    step = make_step(of, start, rows, slots, tile, cache, floor)
    got = attend(of, query, cache, step, step.views[0])
    assert torch.allclose(got, naive(of, query, cache, start), atol=1e-5)


@pytest.mark.parametrize("cap", [None, 1.5])
def test_padding_past_the_last_slot_stays_finite(cap: float | None) -> None:
    """Rows of padding may stand beyond every slot: what they compute is cached like the rest."""
    of, cache = shape(2, cap), torch.randn(2, KV, 256, SIZE)
    step = make_step(of, 255, 8, 256, 4, cache, 0)
    out = attend(of, torch.randn(8, HEADS, SIZE), cache, step, step.views[0])
    assert out.isfinite().all()


@pytest.mark.parametrize(("window", "first"), [(None, 0), (100, 896), (5000, 0)])
def test_what_is_read_follows_from_the_floor(window: int | None, first: int) -> None:
    like = torch.zeros(1)
    steps = [make_step(shape(window), start, 4, 1280, 4, like, 1024) for start in (1024, 1100)]
    assert [step.views[0].first for step in steps] == [first, first]
    one: Any = make_step(shape(window), 1100, 1, 1101, 1, like, 1100)
    assert one == Step(1100, 1101, 1, 1, one.views)
    assert one.views[0].mask is None


def test_kinds_with_the_same_window_share_a_mask() -> None:
    of, _ = shape_of(
        {
            "model_type": "smollm3",
            "hidden_size": 32,
            "intermediate_size": 1,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "vocab_size": 1,
            "max_position_embeddings": 64,
        }
    )
    assert of is not None
    assert of.kind_of == (0, 0, 0, 1)
    views = make_step(of, 0, 8, 8, 8, torch.zeros(1), 0).views
    assert views[0] is views[1]
    turns = make_turns(of, 8, torch.float32, torch.device("cpu"))
    assert turns[0] is not None
    assert turns[1] is None


def test_the_unturned_part_of_a_head_passes() -> None:
    rope = Rope(10000.0, share=0.5)
    assert len(inverse_frequencies(rope, 16)) == 4
    of, _ = shape_of(
        {
            "model_type": "phi3",
            "hidden_size": 64,
            "intermediate_size": 1,
            "num_hidden_layers": 1,
            "num_attention_heads": 4,
            "vocab_size": 1,
            "max_position_embeddings": 64,
            "partial_rotary_factor": 0.5,
        }
    )
    assert of is not None
    assert of.kinds[0].rope == rope
    (turn,) = make_turns(of, 8, torch.float32, torch.device("cpu"))
    assert turn is not None
    x = torch.randn(3, 4, 16)
    turned = rotate(x, turn, 5)
    assert torch.equal(turned[..., 8:], x[..., 8:])
    angle = torch.tensor(6.0)  # row 1 stands at position 6; the first pair turns by 1 a position
    low, high = x[1, :, 0], x[1, :, 4]
    assert torch.allclose(turned[1, :, 0], low * angle.cos() - high * angle.sin(), atol=1e-6)
    assert math.isclose(float(turned.norm()), float(x.norm()), rel_tol=1e-5)
