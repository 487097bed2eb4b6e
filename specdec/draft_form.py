"""Which form a draft runs in, and why: the draft cannot change the words, so it may be quantised.

Knows devices and options; nothing of models, files or drafters.
"""

from __future__ import annotations

from specdec import device, memory
from specdec.depot import memory_form
from specdec.device import DeviceChoice
from specdec.linear import has_fbgemm
from specdec.options import QUANTISED


def draft_form(asked: str | None, where: DeviceChoice) -> memory.Form:
    """What a draft will run in: on a CPU quantised unless asked otherwise, and there only.

    4 bits, or 8 where the target runs on fbgemm: such a CPU computes longer on 4 than it reads 8.
    """
    if where.device.type == "cpu" and asked in (None, *QUANTISED):
        if asked is None:
            return "int8" if where.form == "fp16" else "int4"
        return "int8" if asked == "int8" and has_fbgemm() else "int4"
    if asked in (None, *QUANTISED):
        return memory_form(where.dtype)
    return memory_form(device.DTYPES[asked])


def why_form(asked: str | None, where: DeviceChoice, real: str) -> str:
    """Why the draft runs in this form, by what is known and not by what is hoped."""
    cpu = where.device.type == "cpu"
    if real in QUANTISED:
        if asked == real:
            return "asked for"
        if asked is not None:
            return f"this CPU has no fbgemm for {asked}"
        return f"{real} by default on such a CPU" if real == "int8" else "int4 by default on a CPU"
    if asked not in (None, *QUANTISED):
        return "asked for"
    if asked or cpu:
        return "not quantised, which the lean decoder alone runs, on a CPU alone"
    return "as the target"
