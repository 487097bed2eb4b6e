"""The unrolled head: each step what a chain of drafts computes, and what `specdec/heads` runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from specdec.training.module import DraftHead, Size

pytestmark = pytest.mark.usefixtures("one_thread")

SIZE = Size(32, 48, 4, 2, 8, 1e-5, 1e4, 64, (1, 2, 3))
T, STEPS = 9, 4


def head(size: Size = SIZE) -> DraftHead:
    torch.manual_seed(3)
    made = DraftHead(size)
    with torch.no_grad():
        for name, weight in made.named_parameters():
            weight.normal_(1.0 if "norm" in name else 0.0, 0.3)
    return made


def inputs(batch: int = 2) -> tuple[Tensor, Tensor]:
    torch.manual_seed(5)
    return torch.randn(batch, T, 3 * 32), torch.randn(batch, T + STEPS - 1, 32)


def rotated(x: Tensor, place: int, theta: float) -> Tensor:
    """One vector [head_dim], by hand."""
    half = len(x) // 2
    out = x.clone()
    for i in range(half):
        angle = torch.tensor(place / theta ** (i / half))
        out[i] = x[i] * angle.cos() - x[half + i] * angle.sin()
        out[half + i] = x[half + i] * angle.cos() + x[i] * angle.sin()
    return out


class Chain:
    """A head as inference runs it: one token at a time, with a cache of all rows so far."""

    def __init__(self, made: DraftHead) -> None:
        self.head, self.keys, self.values = made, list[Tensor](), list[Tensor]()

    def copy(self) -> Chain:
        other = Chain(self.head)
        other.keys, other.values = list(self.keys), list(self.values)
        return other

    def read(self, embedded: Tensor, hidden: Tensor) -> Tensor:
        layer, size = self.head.midlayer, self.head.size
        attention = layer.self_attn
        x = torch.cat((layer.input_layernorm(embedded), layer.hidden_norm(hidden)), -1)
        place = len(self.keys)
        query = [rotated(q, place, size.theta) for q in attention.q_proj(x).view(4, 8)]
        key = attention.k_proj(x).view(2, 8)
        self.keys.append(torch.stack([rotated(k, place, size.theta) for k in key]))
        self.values.append(attention.v_proj(x).view(2, 8))
        heads = []
        for number, q in enumerate(query):
            keys = torch.stack([k[number // 2] for k in self.keys])
            values = torch.stack([v[number // 2] for v in self.values])
            heads.append((keys @ q / 8**0.5).softmax(0) @ values)
        y = hidden + attention.o_proj(torch.cat(heads))
        return y + layer.mlp(layer.post_attention_layernorm(y))


@torch.no_grad()
def test_each_step_sees_what_a_chain_of_drafts_has_in_its_cache() -> None:
    made = head()
    taps, embedded = inputs()
    outs = made(taps, embedded, STEPS)
    for row in range(2):
        truth = Chain(made)
        for i in range(T):
            hidden = truth.read(embedded[row, i], made.fc(taps[row, i]))
            chain = truth.copy()
            for step in range(STEPS):
                torch.testing.assert_close(
                    outs[step][row, i], made.norm(hidden), atol=1e-5, rtol=1e-4
                )
                if step + 1 < STEPS:
                    hidden = chain.read(embedded[row, i + step + 1], hidden)


@torch.no_grad()
def test_the_first_step_is_plain_teacher_forcing() -> None:
    made = head()
    taps, embedded = inputs()
    one = made(taps, embedded[:, :T], 1)
    torch.testing.assert_close(made(taps, embedded, STEPS)[0], one[0])


def test_no_row_sees_what_comes_after_it() -> None:
    made = head()
    taps, embedded = inputs(1)
    taps.requires_grad_()
    embedded.requires_grad_()
    outs = made(taps, embedded, STEPS)
    for step, out in enumerate(outs):
        grads = torch.autograd.grad(out[0, 4].sum(), (taps, embedded), retain_graph=True)
        assert grads[0][0, :5].abs().sum(-1).gt(0).all()
        assert grads[0][0, 5:].abs().sum() == 0  # no state of the target's after its own
        assert grads[1][0, 4 + step].abs().sum() > 0
        assert grads[1][0, 5 + step :].abs().sum() == 0  # no token after the one it has read


def test_every_parameter_is_trained_by_the_last_step() -> None:
    made = head(replace(SIZE, kv_heads=4))
    taps, embedded = inputs()
    made(taps, embedded, STEPS)[-1].square().sum().backward()
    assert all(weight.grad is not None and weight.grad.any() for weight in made.parameters())
