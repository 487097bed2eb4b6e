"""Bytes of weights and KV buffers, and whether they fit. Knows shapes, nothing of files or torch.

What is counted is what the lean decoder holds: matrices that are packed in any way leave the
embedding beside them in bf16.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import psutil

from specdec.registry import Entry
from specdec.shape import Shape

Form = Literal["fp32", "bf16", "fp16", "onednn", "fbgemm", "int8", "int4", "quanto", "files"]
"""How weights are kept; "onednn" and "fbgemm" are half precision in the order of one of these, on a
CPU that multiplies it and on one that does not; "quanto" is layers in 8 bits and the rest in bf16;
"files" is as quantised files hold them."""

_BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fbgemm": 2.0, "int8": 1.25, "int4": 0.625}
_BYTES |= {"onednn": 2.0, "quanto": 1.25, "files": 0.625}  # where neither shape nor file is known
"""Bytes a step reads of a weight; int4 in groups of 32 with a bf16 scale and zero each: 1/2 + 4/32.
Of int8 about a quarter, what reads an MLP, stays in fp16."""

FBGEMM_BLOCK = 512
"""fbgemm pads rows to a multiple of this: 576 numbers take the room of 1024."""

WORKSPACE = 60 << 20
"""Bytes beside weights, KV and tokenizer: code loaded late, threads, a prefill chunk, a round."""

CODE = {"quanto": 60 << 20, "files": 250 << 20}
"""Bytes of code that such a form brings along: optimum-quanto, or gptqmodel and what it imports."""

TOKEN = 800
"""Bytes a token of the vocabulary takes in the tokenizer: 53 MB for 49k, 135 MB for 152k."""

MARGIN = 10
"""A share of the estimate, one in so many, must be free beside it: it is that close (docs/log.md).
"""


@dataclass(frozen=True, slots=True)
class Fit:
    """`ok` is None when the need is not known; `reason` is the line a user reads."""

    ok: bool | None
    need: int | None
    free: int
    reason: str


def size_text(count: int) -> str:
    """Bytes as a person reads them: 3.1 GB, 98 MB."""
    if count >= 10**9:
        return f"{count / 1e9:.1f} GB"
    return f"{count / 1e6:.0f} MB" if count >= 10**6 else f"{count / 1e3:.0f} kB"


def free_memory(device: str) -> int:
    """Bytes free in this machine's main memory, which `cpu` and `mps` use.

    Raises ValueError for `cuda`: those numbers need the driver, so the engine passes them in.
    """
    if device.startswith("cuda"):
        raise ValueError("CUDA memory is read by the engine and passed in")
    return int(psutil.virtual_memory().available)


def weight_bytes(entry: Entry, form: Form) -> int | None:
    """Bytes the loaded weights take; from the shape, else the parameter count, else the files."""
    shape = entry.shape
    embedding = shape.embedding if shape else None
    if form == "files" and entry.bytes is not None:
        return entry.bytes
    if shape and embedding is not None and shape.parameters is not None:
        if form == "int4":  # everything packed, and the embedding once more to look rows up in
            packed = shape.decoder(shape.experts or 1) or 0
            return int((packed + embedding) * _BYTES["int4"]) + embedding * 2
        if form == "onednn" and not shape.experts:
            return 2 * ((shape.decoder(shape.experts or 1) or 0) + 2 * embedding)
        if form == "quanto":
            layers = shape.decoder(shape.experts or 1) or 0
            return layers + 2 * (shape.parameters - layers)
        if form in ("fbgemm", "int8") and not shape.experts:
            return (_padded(shape, form) or 2 * shape.parameters) + embedding * 2
        return int(shape.parameters * _BYTES[form])
    if entry.parameters is not None:
        return int(entry.parameters * _BYTES[form])
    if entry.bytes is not None:  # hub files are bf16 as published
        return int(entry.bytes / 2 * _BYTES[form])
    return None


def _padded(shape: Shape, form: Form) -> int | None:
    """Bytes of all matrices in fbgemm's order. int8 leaves those wider than high in two bytes."""
    if not (shape.layers and shape.hidden and shape.intermediate and shape.vocab):
        return None
    if not (shape.heads and shape.kv_heads and shape.head_dim):
        return None

    def held(rows: int, width: int) -> int:
        item = 1 if form == "int8" and width <= rows else 2
        return rows * -(-width // FBGEMM_BLOCK) * FBGEMM_BLOCK * item

    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    layer = held(queries + 2 * keys, shape.hidden) + held(shape.hidden, queries)
    layer += held(2 * shape.intermediate, shape.hidden) + held(shape.hidden, shape.intermediate)
    return shape.layers * layer + held(shape.vocab, shape.hidden)


def step_bytes(entry: Entry, form: Form) -> int | None:
    """Bytes of weights read to make one token: active experts only, no embedding look-up."""
    if form == "files" and entry.bytes is not None:
        return entry.bytes
    if form == "quanto" and entry.shape is not None and entry.shape.step_parameters is not None:
        return entry.shape.step_parameters + (entry.shape.embedding or 0)
    count = entry.shape.step_parameters if entry.shape else None
    if count is None:
        count = entry.active_parameters or entry.parameters
    if count is None and entry.bytes is not None:
        count = entry.bytes // 2
    return None if count is None else int(count * _BYTES[form])


def kv_bytes(shape: Shape | None, tokens: int, item: int = 2) -> int | None:
    """Bytes of a KV buffer for `tokens`; windows are not subtracted. `item`: bytes a number."""
    if shape is None or not (shape.layers and shape.kv_heads and shape.head_dim):
        return None
    return 2 * shape.layers * shape.kv_heads * shape.head_dim * item * tokens


def need_bytes(entry: Entry, form: Form, context: int, draft: bool = False) -> int | None:
    """Weights, a KV buffer of `context` tokens (capped at the model's own), and what is beside.

    A target brings the tokenizer and workspace, a `draft` neither.
    """
    weights = weight_bytes(entry, form)
    if weights is None:
        return None
    vocab = entry.shape.vocab if entry.shape else None
    beside = 0 if draft else WORKSPACE + TOKEN * (vocab or 0) + CODE.get(form, 0)
    tokens = min(context, entry.context or context)
    item = 4 if form == "fp32" else 2
    return weights + (kv_bytes(entry.shape, tokens, item) or 0) + beside


def fits(need: int | None, free: int) -> Fit:
    """Whether `need` bytes fit in `free`, with a MARGIN."""
    if need is None:
        return Fit(None, None, free, "size not known before the files are here")
    reason = f"needs {size_text(need)}, {size_text(free)} free"
    return Fit(need + need // MARGIN <= free, need, free, reason)
