"""What the other form of a target's weights would give on this machine: measured, in words.

Knows a loaded model and its folder; nothing of drafts or pages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from time import perf_counter

import torch
from torch import Tensor

from specdec import memory, tensor_names
from specdec.checkpoint import Checkpoint, open_checkpoint, read_config
from specdec.depot import Files, memory_form
from specdec.device import DeviceChoice
from specdec.linear import GROUP, Form, Int4, Linear, make
from specdec.loading import Model
from specdec.packed import INT4_BYTES, Packed
from specdec.packed_file import PackedFile
from specdec.pair import Choice
from specdec.quantised import EXTRAS, method_of

_ENOUGH = 64 << 20
"""Bytes of dense matrices timed: fewer would come from the processor's cache, not from memory."""

_PASSES = 3

_MOST = 0.95
"""Share of a step that matrices can take at most; a noisy measurement may say more."""


@dataclass(frozen=True, slots=True)
class Share:
    """Weights that a step reads: how many are, or could be, in 4-bit blocks, and the others."""

    blocks: int
    others: int

    @property
    def all(self) -> int:
        return self.blocks + self.others


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds a weight takes in a step of one row."""

    packed: float
    dense: float

    def step(self, share: Share, packed: bool) -> float:
        """Seconds of all matrices of a step, with the blocks packed or not."""
        return share.blocks * (self.packed if packed else self.dense) + share.others * self.dense


def target_form(files: Files, where: DeviceChoice, weights: str | None = None) -> memory.Form:
    """How `memory` counts the target in `files` here; `weights` is what was asked for.

    Other methods than an extra runs may be unpacked away from CUDA, and are counted so.
    """
    method = method_of(read_config(files.folder))
    if method:
        stays = method in EXTRAS or where.device.type == "cuda"
        return "files" if stays else memory_form(where.dtype)
    if weights == "int8":
        return "quanto"
    if where.form == "fp16":
        return "fbgemm"
    if where.form == "onednn" and where.dtype.itemsize == 2:
        return "onednn"
    return memory_form(where.dtype)


def need_bytes(
    files: Files, where: DeviceChoice, context: int, weights: str | None = None
) -> int | None:
    """Memory the target in `files` takes here, KV and tokenizer included; see `memory`."""
    kept = target_form(files, where, weights)
    need = memory.need_bytes(files.entry, kept, context)
    if need is not None and kept == "files" and where.device.type == "cpu":
        need += files.entry.bytes or 0  # gptqmodel does not let go of the mapped file
    if need is None or files.packed is None:
        return need
    block = memory.FBGEMM_BLOCK if kept == "fbgemm" else 1
    return need - PackedFile(files.packed).saved(block)


def other_form(model: Model, folder: Path, form: Form, plain: float) -> str:
    """A sentence for the page, "" where there is nothing to say.

    `form` is the dense one here and `plain` the seconds of a plain step as loaded. Takes some
    milliseconds: it times this model's largest matrix in both forms.
    """
    if model.weights is None or model.device.type != "cpu" or model.dtype != torch.bfloat16:
        return ""
    share = _packed_now(model) if model.packed_bytes else blocks_of(folder, model)
    if not share.blocks:
        return ""
    return sentence(share, measure(model, form), plain, bool(model.packed_bytes))


def held(model: Model, dense: Choice) -> Choice:
    """The form the weights are in, for the page; `dense` is the choice where it is neither."""
    if model.quantised is not None:
        return model.quantised
    if not model.packed_bytes:
        return dense
    share = _packed_now(model)
    return Choice(
        "packed",
        f"asked for; {share.blocks / share.all:.0%} of the weights of a step stay in the file's"
        f" 4-bit blocks, the rest is {dense.value}: {dense.reason}",
    )


def sentence(share: Share, costs: Costs, plain: float, packed: bool) -> str:
    """What the form that is not loaded would give; `packed` says which one is loaded."""
    now, other = costs.step(share, packed), costs.step(share, not packed)
    matrices = min(now / plain, _MOST)  # of a step; the rest of it stays what it is
    speed = 1 / (1 - matrices + matrices * other / now)
    bits = 8 * (share.blocks * INT4_BYTES + share.others * 2) / share.all
    name = "bf16" if packed else "packed"
    size = "16 bits a weight" if packed else f"{bits:.1f} bits a weight instead of 16"
    return (
        f"{name} weights (--weights {name}) would give about {speed:.1f}x this plain speed here:"
        f" {size}; they round otherwise, so some words would differ"
    )


def measure(model: Model, form: Form) -> Costs:
    """Time the model's own gate-up matrices, and as many of constants in the other form."""
    assert model.weights is not None
    shape = model.weights.shape
    rows, width = 2 * shape.intermediate, shape.hidden
    count = min(shape.layers, -(-_ENOUGH // (2 * rows * width)))
    own = [layer.gate_up for layer in model.weights.layers[:count]]
    x = torch.ones(1, width, dtype=model.dtype)
    packed = isinstance(own[0], Packed)
    make_other = partial(_dense, form=form) if packed else _int4
    mine = _seconds(own, x) / (count * rows * width)
    theirs = _seconds([make_other(rows, width) for _ in own], x) / (count * rows * width)
    return Costs(mine, theirs) if packed else Costs(theirs, mine)


def blocks_of(folder: Path, model: Model) -> Share:
    """Which of a folder's matrices were unpacked from 4-bit blocks, seen by their values.

    A block of 32 weights then holds at most 16 different ones; other kinds hold more.
    """
    found = 0
    with open_checkpoint(folder) as checkpoint:
        own_head = tensor_names.HEAD in checkpoint
        for name in checkpoint.where:
            looked_up = name == tensor_names.EMBED and own_head
            if not looked_up and _from_blocks(checkpoint, name):
                found += prod(checkpoint.shape(name))
    total = model.step_bytes // model.dtype.itemsize
    return Share(found, max(total - found, 0))


def _from_blocks(checkpoint: Checkpoint, name: str) -> bool:
    shape = checkpoint.shape(name)
    if len(shape) != 2 or shape[1] % GROUP:
        return False
    groups = checkpoint.first(name, 2).view(-1, GROUP).float().sort(1).values
    different = 1 + (groups[:, 1:] != groups[:, :-1]).sum(1)
    return bool((different <= 16).all())


def _packed_now(model: Model) -> Share:
    blocks = int(model.packed_bytes / INT4_BYTES)
    return Share(blocks, (model.step_bytes - model.packed_bytes) // 2)


def _int4(rows: int, width: int) -> Linear:
    rows += -rows % 64
    packed = torch.full((rows, width // 2), 0x77, dtype=torch.uint8)
    return Int4(packed, torch.ones(width // GROUP, rows, 2, dtype=torch.bfloat16), None, rows)


def _dense(rows: int, width: int, form: Form) -> Linear:
    return make(torch.full((rows, width), 0.5, dtype=torch.bfloat16), None, form)


def _seconds(matrices: Sequence[Callable[[Tensor], Tensor]], x: Tensor) -> float:
    """The fastest pass over all, after one that warms up."""
    times = []
    for _ in range(1 + _PASSES):
        start = perf_counter()
        for matrix in matrices:
            matrix(x)
        times.append(perf_counter() - start)
    return min(times[1:])
