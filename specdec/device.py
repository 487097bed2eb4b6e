"""Device and dtype for a run, each with the reason it was taken.

Knows torch's backends; nothing of models.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from specdec.errors import DeviceError
from specdec.linear import Form, has_fbgemm, multiplies
from specdec.pair import Choice

DTYPES = {
    "bf16": torch.bfloat16,
    "bfloat16": torch.bfloat16,
    "fp16": torch.float16,
    "float16": torch.float16,
    "fp32": torch.float32,
    "float32": torch.float32,
}
SHORT = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32"}


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """Where to run and in what, with reasons the page shows."""

    device: torch.device
    dtype: torch.dtype
    device_choice: Choice
    dtype_choice: Choice
    form: Form = "dense"


def choose(device: str | None = None, dtype: str | None = None) -> DeviceChoice:
    """Pick what was asked for, or the best there is (None or "auto").

    Raises DeviceError for a device or dtype that is not there.
    """
    where, why = _device(device)
    kind, kind_why = _dtype(where, dtype)
    form, form_why = form_of(where, kind)
    chosen = Choice(SHORT[kind], "; ".join(text for text in (kind_why, form_why) if text))
    return DeviceChoice(where, kind, Choice(str(where), why), chosen, form)


def form_of(device: torch.device, dtype: torch.dtype) -> tuple[Form, str]:
    """How matrices of `dtype` are kept unquantised on `device`, and why if not as they are."""
    if device.type != "cpu":
        return "dense", ""
    if multiplies(dtype):
        return "onednn", "" if dtype == torch.float32 else "matrices are packed for oneDNN"
    if dtype == torch.float32:
        return "dense", ""
    missing = f"this CPU has no {SHORT[dtype]} instructions"
    if has_fbgemm():
        return "fp16", f"{missing}, so matrices are packed for fbgemm"
    return "dense", f"{missing}, so several rows at once are slow"


def _device(name: str | None) -> tuple[torch.device, str]:
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    if name in (None, "", "auto"):
        if cuda:
            return torch.device("cuda"), f"found {torch.cuda.get_device_name()}"
        if mps:
            return torch.device("mps"), "found an Apple GPU"
        return torch.device("cpu"), "no CUDA or Apple GPU that torch can use"
    assert name is not None
    try:
        device = torch.device(name)
    except RuntimeError:
        raise DeviceError(f"There is no device {name!r}.", "Use auto, cpu, cuda or mps.") from None
    if device.type == "cuda" and not cuda:
        built = "was built without CUDA" if torch.version.cuda is None else "sees no GPU"
        raise DeviceError(
            f"The device {name} is not there: this torch {built}.",
            "Use --device cpu, or install the CUDA build and a driver.",
        )
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        count = torch.cuda.device_count()
        raise DeviceError(f"There is no {name}: {count} found.", f"Use cuda:0 to cuda:{count - 1}.")
    if device.type == "mps" and not mps:
        raise DeviceError("The device mps is not there.", "It needs an Apple GPU; use cpu.")
    if device.type not in ("cpu", "cuda", "mps"):
        raise DeviceError(f"The device {name} is not supported.", "Use auto, cpu, cuda or mps.")
    return device, "asked for"


def _dtype(device: torch.device, name: str | None) -> tuple[torch.dtype, str]:
    if name not in (None, "", "auto"):
        if name not in DTYPES:
            raise DeviceError(f"There is no dtype {name!r}.", "Use auto, bf16, fp16 or fp32.")
        return DTYPES[name], "asked for"
    if device.type == "cuda":
        if torch.cuda.is_bf16_supported(including_emulation=False):
            return torch.bfloat16, "this GPU computes bf16"
        return torch.float16, "this GPU has no bf16"
    if device.type == "mps":
        return _mps_dtype(device)
    if multiplies(torch.bfloat16):
        return torch.bfloat16, "this CPU multiplies bf16 in hardware"
    return torch.bfloat16, "as published: half the bytes of fp32 for each token"


def _mps_dtype(device: torch.device) -> tuple[torch.dtype, str]:
    try:  # older macOS refuses bf16 when the first tensor is made (D16)
        torch.ones(2, dtype=torch.bfloat16, device=device).add_(1)
    except (RuntimeError, TypeError) as error:
        return torch.float16, f"this macOS has no bf16 ({error})"
    return torch.bfloat16, "this Apple GPU takes bf16"
