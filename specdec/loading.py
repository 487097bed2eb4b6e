"""Files -> weights on the device, packed or not. Other architectures go to transformers.

Knows folders and weights; nothing of caches, rounds or where the files came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from specdec import heap, held, quantised, threads
from specdec.checkpoint import open_checkpoint, read_config, weight_files
from specdec.decoder import Weights
from specdec.device import SHORT
from specdec.errors import LoadError
from specdec.fallback import load_module
from specdec.families import Shape, shape_of
from specdec.layer_reader import LayerReader
from specdec.linear import Form
from specdec.matrices import Matrices
from specdec.packed import packed_bytes
from specdec.packed_file import PackedFile, check
from specdec.pair import Choice

Progress = Callable[[int, int], None]

PACKERS = 4
"""Most layers packed at once on a CPU: each is held twice meanwhile, and once in fp32."""

UNBOUNDED = 1 << 20
"""The context of a recurrent model, which names no limit."""


@dataclass(frozen=True, slots=True)
class Model:
    """Weights ready to score with, and the numbers others plan with.

    Exactly one of `weights` (lean) and `module` (transformers) is set; `reason` says why it is not
    the lean one. `notes` are what the user should be told about this load.
    """

    architecture: str
    device: torch.device
    dtype: torch.dtype
    form: Form
    layers: int
    kv_heads: int
    head_dim: int
    hidden: int
    vocab: int  # rows of the embedding, padding included
    context: int
    weight_bytes: int  # held in memory
    step_bytes: int  # read by a step of one token
    lean: bool
    reason: str = ""
    notes: tuple[str, ...] = ()
    packed_bytes: int = 0  # of step_bytes, in the 4-bit blocks of the file
    quantised: Choice | None = None  # the form of a quantised module, and how much of it
    weights: Weights | None = None
    module: Any = None
    even: dict[int, tuple[int, ...]] = field(default_factory=dict)  # self-tests run, by width

    @property
    def kv_bytes(self) -> int:
        """Bytes of KV cache a token takes."""
        return 2 * self.layers * self.kv_heads * self.head_dim * self.dtype.itemsize


def load_model(
    folder: Path,
    device: torch.device,
    dtype: torch.dtype,
    form: Form = "dense",
    progress: Progress | None = None,
    packed: Path | None = None,
    weights: str | None = None,
) -> Model:
    """Load the model in `folder`; `progress(done, total)` counts layers.

    `packed` is the GGUF file it was made from: its 4-bit blocks then stay as they are. int4 is for
    a CPU; elsewhere, and through transformers, the dense form is taken and `notes` says so.
    `weights` is what was asked for, one of WEIGHTS: int8 runs through transformers, and files that
    are quantised already are neither that nor bf16. Raises LoadError: missing, truncated or pickled
    files, wrong shapes, an architecture or quantisation that nothing here can run, code of its own
    (never run), blocks that cannot stay packed here.
    """
    config = read_config(folder)
    if method := quantised.method_of(config):  # before anything is read
        quantised.check_method(method, folder.name, weights)
    try:
        shape, reason = shape_of(config)
    except (KeyError, TypeError, ValueError) as error:
        raise LoadError(
            f"{folder / 'config.json'} lacks or misstates {error}.", "Fetch the model anew."
        ) from error
    blocks = _open_packed(packed, folder, shape, device, dtype) if packed else None
    if shape is None or weights == "int8":
        int8 = weights == "int8"
        why = "its layers are held in 8 bits, which the lean decoder cannot" if int8 else reason
        with heap.given_back():
            return _load_fallback(folder, config, device, dtype, form, why, int8)
    form, notes = _settle_form(form, device)
    architecture = (config.get("architectures") or [shape.family])[0]
    with heap.given_back(), open_checkpoint(folder) as checkpoint:
        matrices = Matrices(checkpoint, device, dtype, form, blocks)
        return lean_model(matrices, shape, architecture, notes, progress)


def lean_model(
    matrices: Matrices,
    shape: Shape,
    architecture: str,
    notes: tuple[str, ...] = (),
    progress: Progress | None = None,
) -> Model:
    """A model of the lean decoder from its matrices, wherever they come from. Raises LoadError."""
    weights = _read(matrices, shape, progress or _silent)
    step = sum(matrix.nbytes for matrix in weights.matrices())
    stayed = packed_bytes(weights.matrices())
    shared = getattr(weights.head, "weight", None) is weights.embed
    return Model(
        architecture=architecture,
        device=matrices.device,
        dtype=matrices.dtype,
        form=matrices.form,
        layers=shape.layers,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        hidden=shape.hidden,
        vocab=shape.rows,
        context=shape.context,
        weight_bytes=step + (0 if shared else weights.embed.nbytes),
        step_bytes=step,
        lean=True,
        notes=notes,
        packed_bytes=stayed,
        weights=weights,
    )


def _silent(done: int, total: int) -> None:
    """No one watches."""


def _open_packed(
    file: Path, folder: Path, shape: Shape | None, device: torch.device, dtype: torch.dtype
) -> PackedFile:
    check_packed(device, dtype)
    if shape is None:
        raise LoadError(
            "The blocks cannot stay packed: this model runs through transformers.",
            "Use --weights bf16.",
        )
    check(file, folder)
    return PackedFile(file)


def check_packed(device: torch.device, dtype: torch.dtype) -> None:
    """Raises LoadError where the int4 kernel cannot run, or nothing but it would."""
    why = ""
    if device.type != "cpu":
        why = f"they run on the CPU only, and the device is {device.type}"
    elif dtype != torch.bfloat16:
        why = f"they compute in bfloat16, and {str(dtype).removeprefix('torch.')} was asked for"
    if why:
        raise LoadError(f"The blocks cannot stay packed: {why}.", "Use --weights bf16.")


def _settle_form(form: Form, device: torch.device) -> tuple[Form, tuple[str, ...]]:
    if form != "dense" and device.type != "cpu":
        return "dense", (f"{form} runs on the CPU only; on {device.type} the weights stay dense",)
    return form, ()


def _read(matrices: Matrices, shape: Shape, progress: Progress) -> Weights:
    reader, device, dtype = LayerReader.over(matrices, shape), matrices.device, matrices.dtype
    parts = shape.layers + 1
    # what is held twice meanwhile comes while little else is in memory
    order = sorted(range(shape.layers), key=reader.dense_numbers, reverse=True)
    layers = {}
    with _packers(device) as pool:
        ends = pool.submit(reader.ends)  # the largest matrix
        waiting = {index: pool.submit(reader.layer, index) for index in order}
        try:
            for done, (index, layer) in enumerate(waiting.items()):
                progress(done, parts)
                layers[index] = layer.result()
            progress(shape.layers, parts)
            embed, head = ends.result()
        finally:
            pool.shutdown(cancel_futures=True)
    norm = reader.last_norm()
    progress(parts, parts)
    # rounded as the embedding is: in bf16 the root of 640 is 25.25
    scale = float(torch.tensor(shape.hidden**0.5, dtype=dtype)) if shape.gemma else 1.0
    in_turn = tuple(layers[index] for index in range(shape.layers))
    return Weights(shape, dtype, embed, in_turn, norm, head, scale)


@contextmanager
def _packers(device: torch.device) -> Iterator[ThreadPoolExecutor]:
    """One layer a core, each on one thread: packing is many short passes, and threads that share
    one wait for each other at every pass. A GPU copies, so one packer will do.
    """
    if device.type != "cpu":
        with ThreadPoolExecutor(1) as pool:
            yield pool
        return
    workers = min(threads.most(), PACKERS)
    with threads.using(1), ThreadPoolExecutor(workers) as pool:
        yield pool


def _load_fallback(
    folder: Path,
    config: dict[str, Any],
    device: torch.device,
    dtype: torch.dtype,
    form: Form,
    reason: str,
    int8: bool,
) -> Model:
    weight_files(folder)
    module = load_module(folder, config, device, dtype, int8)
    text = module.config.get_text_config()
    kept = None
    if method := "int8" if int8 else quantised.method_of(config):
        dtype = module.dtype  # some methods compute in another one than was asked for
        kept = held.held_form(module, method, quantised.bits_of(config), SHORT[dtype])
        held.check_products(module)
        held.check_step(module, method)
        if not int8:  # which was read, not mapped
            held.leave_file(module)
    size = held.held_bytes(module)
    heads = int(getattr(text, "num_attention_heads", 0))  # a recurrent model has none
    dense = form == "int4" and kept is None
    notes = ("int4 is for the lean decoder only; the weights stay dense",) if dense else ()
    return Model(
        architecture=type(module).__name__,
        device=device,
        dtype=dtype,
        form="dense",
        layers=int(text.num_hidden_layers),
        kv_heads=int(getattr(text, "num_key_value_heads", None) or heads),
        head_dim=int(getattr(text, "head_dim", None) or text.hidden_size // max(heads, 1)),
        hidden=int(text.hidden_size),
        vocab=int(module.get_input_embeddings().weight.shape[0]),
        context=int(getattr(text, "max_position_embeddings", UNBOUNDED)),
        weight_bytes=size,
        step_bytes=size,
        lean=False,
        reason=f"runs through transformers, a little slower: {reason}",
        notes=notes,
        quantised=kept,
        module=module,
    )
