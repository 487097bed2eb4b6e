"""Does this device compute what a CPU does? Asked at load, of a few layers of the loaded weights.

Prompt, several-token and one-token passes of odd lengths, against fp32 on the CPU. Knows weights
and scorers; nothing of which device is asked, or of files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from specdec.decoder import Layer, Weights
from specdec.errors import DeviceError
from specdec.linear import Dense, Linear
from specdec.loading import Model
from specdec.runner import Layout, LeanScorer

PROMPTS = (1, 7, 33, 61)
"""Prompt tokens before the rows that are compared: odd, short, and one past a power of two."""

ROWS = (1, 5, 2, 7, 1)
"""Rows of the scoring calls that follow, kept or not."""

VOCAB = 512
"""Rows of the embedding and the head that are tried: a copy of all would take gigabytes."""

FACTOR, LEAST = 3.0, 2e-3
"""How far a row's logits may lie from fp32's, in lengths of fp32's row.

So many times what the CPU's own rounding in that dtype makes of it (in bf16 1 % for SmolLM2, 8 %
for Qwen2.5-Coder 0.5B), and at least the second number.
"""

Put = Callable[[Weights, torch.dtype, bool], Weights]
"""A copy of a sample on some device, in a dtype, with attention by hand or not."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is safe here: torch's attention or plain products, and a dtype.

    `reason` is "" where all is as it was asked.
    """

    by_hand: bool
    dtype: torch.dtype
    reason: str = ""

    def applied(self, weights: Weights) -> Weights:
        """The same weights, with the attention that is safe."""
        return replace(weights, shape=replace(weights.shape, by_hand=self.by_hand))


def find_safe(weights: Weights, put: Put | None = None) -> Finding:
    """The first of what was asked, attention in plain products, fp32, and both, that is right.

    `put` copies the sample to the device under test; None takes the one the weights are on. Raises
    DeviceError with the figures when none is.
    """
    device, asked, cpu = weights.embed.device, weights.dtype, torch.device("cpu")
    put = put or (lambda sample, dtype, by_hand: copied(sample, device, dtype, by_hand))
    sample = sampled(weights)
    truth = _passes(copied(sample, cpu, torch.float32, by_hand=True))
    errors: list[str] = []
    for dtype in dict.fromkeys((asked, torch.float32)):
        rounding = _distance(_passes(copied(sample, cpu, dtype, by_hand=True)), truth)
        for by_hand in (False, True):
            error = _distance(_passes(put(sample, dtype, by_hand)), truth)
            what = f"{_name(dtype)} with {'plain products' if by_hand else 'torch attention'}"
            if error <= max(LEAST, FACTOR * rounding):
                why = f"{what} is used: {'; '.join(errors)}" if errors else ""
                return Finding(by_hand, dtype, why)
            errors.append(f"{what} is {error:.2g} off, the CPU {rounding:.2g}")
    raise DeviceError(
        f"{device.type} computes wrong numbers with this model: {'; '.join(errors)}.",
        "Use --device cpu, or another version of torch.",
    )


def tested(load: Callable[[torch.dtype], Model], dtype: torch.dtype) -> Model:
    """What `load` gives, in the dtype and with the attention that are safe on its device.

    A note says what was changed and why, or that nothing was tested. Raises DeviceError.
    """
    model = load(dtype)
    if model.weights is None:
        return replace(model, notes=(*model.notes, "what this device computes was not tested"))
    finding = find_safe(model.weights)
    if finding.dtype != model.dtype:
        del model  # both at once may not fit
        model = load(finding.dtype)
    assert model.weights is not None
    notes = (*model.notes, *([finding.reason] if finding.reason else []))
    return replace(model, weights=finding.applied(model.weights), notes=notes)


def sampled(weights: Weights) -> Weights:
    """One layer of each kind, at least two in all, and the first rows of embedding and head."""
    layers = list(weights.layers[:2])
    known = {layer.kind for layer in layers}
    for layer in weights.layers:
        if layer.kind not in known:
            known.add(layer.kind)
            layers.append(layer)
    rows = min(VOCAB, weights.shape.rows)
    shape = replace(weights.shape, layers=len(layers), rows=rows)
    head = weights.head
    if isinstance(head, Dense):
        head = Dense(head.weight[:rows], None if head.bias is None else head.bias[:rows])
    ids = torch.arange(rows, device=weights.norm.device)
    embed = weights.embed[ids] if isinstance(weights.embed, Tensor) else weights.embed
    return replace(weights, shape=shape, layers=tuple(layers), embed=embed, head=head)


def _passes(weights: Weights) -> list[Tensor]:
    """The logits of every row that each pass scores, on the CPU in fp32: [rows, vocab] each."""
    vocab, width = weights.shape.rows, max(ROWS)
    random = torch.Generator().manual_seed(5)
    most = max(PROMPTS) + sum(ROWS)
    ids = torch.randint(0, vocab, (most,), generator=random).tolist()
    found = []
    for length in PROMPTS:
        scorer = LeanScorer(weights, Layout.plain(width), most, vocab, exact=False)
        while scorer.length < length:
            border = (scorer.length // scorer.chunk + 1) * scorer.chunk
            scorer.prefill(ids[scorer.length : min(border, length)])
        for rows in ROWS:
            at = scorer.length
            found.append(scorer.score(ids[at : at + rows]).cpu())
            scorer.rewind(at + (rows + 1) // 2)  # as after a draft that was half right
    return found


def _distance(mine: list[Tensor], truth: list[Tensor]) -> float:
    """The largest |mine - truth| / |truth| of all rows; infinite where it is no number."""
    worst = 0.0
    for one, true in zip(mine, truth, strict=True):
        error = float(((one - true).norm(dim=1) / true.norm(dim=1)).amax())
        worst = max(worst, error if error == error else float("inf"))
    return worst


def copied(weights: Weights, device: torch.device, dtype: torch.dtype, by_hand: bool) -> Weights:
    """A copy of the sample on `device` in `dtype`."""

    def some(x: Tensor) -> Tensor:
        return x.to(device, dtype)

    def norm(x: Tensor) -> Tensor:  # fp32 norms are a family's own and stay so
        return x.to(device, torch.float32 if x.dtype == torch.float32 else dtype)

    def linear(matrix: Linear) -> Linear:
        if not isinstance(matrix, Dense):
            return matrix
        return Dense(some(matrix.weight), None if matrix.bias is None else some(matrix.bias))

    def layer(x: Layer) -> Layer:
        return replace(
            x,
            norm_in=norm(x.norm_in),
            qkv=linear(x.qkv),
            qk_norm=None if x.qk_norm is None else norm(x.qk_norm),
            out=linear(x.out),
            norm_mid=norm(x.norm_mid),
            gate_up=linear(x.gate_up),
            down=linear(x.down),
            norm_out=None if x.norm_out is None else norm(x.norm_out),
            norm_down=None if x.norm_down is None else norm(x.norm_down),
        )

    return replace(
        weights,
        shape=replace(weights.shape, by_hand=by_hand),
        dtype=dtype,
        embed=some(weights.embed) if isinstance(weights.embed, Tensor) else weights.embed,
        layers=tuple(layer(x) for x in weights.layers),
        norm=norm(weights.norm),
        head=linear(weights.head),
    )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
