"""What a module of transformers really holds: bytes and form, and whether 8-bit products are right.

Knows tensors; nothing of files or of who asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from specdec.errors import LoadError
from specdec.pair import Choice

ROWS = (1, 5)
"""Rows of the products that are compared: a step, and an odd number of drafts."""

NEAR = 0.03
"""How far a product may be from that of the weights as held, in lengths of it; bf16 gives 0.005."""


def tensors(module: nn.Module) -> Iterator[Tensor]:
    """Every tensor in memory once; of one that wraps others, as quanto's do, those inside."""
    for tensor in (*module.parameters(), *module.buffers()):
        yield from inside(tensor)


def held_bytes(module: nn.Module) -> int:
    """Bytes of all parameters and buffers, as they lie in memory."""
    return sum(tensor.nbytes for tensor in tensors(module))


def leave_file(module: nn.Module) -> None:
    """Copy what still lies in mapped files: else their pages, all that were read, stay with it."""
    for tensor in (*module.parameters(), *module.buffers()):
        if not _wraps(tensor) and tensor.device.type == "cpu":
            tensor.data = tensor.data.clone()


def held_form(module: nn.Module, method: str, bits: int | None, dtype: str) -> Choice:
    """The form for the page: `method` as its files say, "int8" where it was held so at load.

    Raises LoadError for int8 where no layer could be.
    """
    total = held_bytes(module)
    small = sum(tensor.nbytes for tensor in tensors(module) if _quantised(tensor))
    share = f"{small / total:.0%} of the bytes"
    if method == "int8":
        if not small:
            raise LoadError(
                f"Nothing in {type(module).__name__} can be held in 8 bits.", "Leave --weights out."
            )
        why = f"asked for; {share} are 8-bit layers of optimum-quanto, the rest is {dtype}"
        return Choice("int8", f"{why}, in which it computes")
    if not small:
        return Choice(dtype, f"transformers unpacked its {method} files to {dtype}")
    size = f"{bits} bits, " if bits else ""
    return Choice(method, f"as published: {size}{share}, the rest is {dtype}, in which it computes")


@torch.inference_mode()
def check_step(module: Any, method: str) -> None:
    """Raises LoadError where the kernels for quantised weights cannot make one token here."""
    ids = torch.zeros(1, 1, dtype=torch.int64, device=module.device)
    try:
        module(input_ids=ids, use_cache=False)
    except torch.OutOfMemoryError:  # is told elsewhere
        raise
    except (RuntimeError, ValueError, TypeError, AttributeError, AssertionError,
            ImportError) as error:  # fmt: skip
        line = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise LoadError(
            f"Weights quantised as {method} do not run on {module.device.type}: {line}",
            "Choose the unquantised version of this model, or another --device.",
        ) from error


@torch.inference_mode()
def check_products(module: nn.Module) -> None:
    """Raises LoadError where an 8-bit layer does not multiply by the weights that it holds."""
    layer = next((one for one in module.modules() if _wraps(getattr(one, "weight", None))), None)
    if layer is None:
        return
    weight: Any = layer.weight
    bias: Any = layer.bias
    plain = weight.dequantize()
    for rows in ROWS:
        line = torch.linspace(-1, 1, rows * plain.shape[1], dtype=torch.float32)
        x = line.cos().view(rows, -1).to(plain.device, plain.dtype)
        try:
            got = layer(x)
        except (RuntimeError, TypeError, AssertionError, ImportError) as error:
            raise LoadError(f"8-bit layers do not run here: {error}", _ELSE) from error
        want = nn.functional.linear(x, plain, bias).float()
        off = float((got.float() - want).norm() / want.norm())
        if not off <= NEAR:  # nor where it is no number
            raise LoadError(f"8-bit layers compute wrong numbers here: {off:.2g} off.", _ELSE)


_ELSE = "Leave --weights out, or use --device cpu."


def inside(tensor: Any) -> Iterator[Tensor]:
    """The tensor, or the plain ones that it wraps."""
    if _wraps(tensor):
        for name in tensor.__tensor_flatten__()[0]:
            yield from inside(getattr(tensor, name))
    else:
        yield tensor


def _wraps(tensor: Any) -> bool:
    return hasattr(tensor, "__tensor_flatten__")


def _quantised(tensor: Tensor) -> bool:
    """A matrix of bytes, or of words that hold several weights."""
    kind = tensor.dtype
    small = kind in (torch.int8, torch.uint8, torch.int32)
    return tensor.dim() > 1 and (small or (kind.is_floating_point and kind.itemsize == 1))
