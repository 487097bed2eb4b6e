"""Notes every way in which a host learns a device's numbers, and so waits for it. Knows torch only.

On a CPU most of them are no operations, so calls of tensors' methods are watched as well.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

OPERATIONS = ("_local_scalar_dense", "nonzero", "masked_select", "bincount", "equal")
METHODS = ("tolist", "cpu", "numpy", "__array__")


class Reads(TorchFunctionMode):
    """`with Reads() as reads:` ... `reads.seen`, the names in order."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self._operations = _Operations(self.seen)

    def __enter__(self) -> Reads:
        super().__enter__()
        self._operations.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._operations.__exit__(*error)
        super().__exit__(*error)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in METHODS:
            self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


class _Operations(TorchDispatchMode):
    def __init__(self, seen: list[str]) -> None:
        super().__init__()
        self._seen = seen

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        masked = name == "index" and any(i is not None and i.dtype == torch.bool for i in args[1])
        if masked or name in OPERATIONS:  # to pick by a mask, the host must count it
            self._seen.append(name)
        return func(*args, **(kwargs or {}))
