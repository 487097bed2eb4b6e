"""A device that records as CUDA graphs do: operations with their memory, and nothing else.

What the host computed while recording is frozen, so code that lets a number of the host's slip in
repeats it wrongly, and code that makes the host wait is refused. Knows nothing of models.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from specdec.graphs import Work

STOPS = ("_local_scalar_dense", "nonzero", "masked_select", "bincount", "equal")


class Tape(TorchDispatchMode):
    """Every operation, with the tensors it read and those it made."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[tuple[Any, Any, Any, list[Tensor]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket.__name__ in STOPS:
            raise RuntimeError(f"operation not permitted when stream is capturing: {func}")
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        self.steps.append((func, args, kwargs, tensors(out)))
        return out

    @torch.inference_mode()
    def replay(self) -> None:
        """The same operations on the same memory, their results where they were."""
        for func, args, kwargs, made in self.steps:
            for new, old in zip(tensors(func(*args, **kwargs)), made, strict=True):
                if new.data_ptr() != old.data_ptr():
                    old.copy_(new)


class Recorder:
    """A `graphs.Device`. `spare` bytes are free; a capture takes `cost`; `fail` ends it."""

    def __init__(self, spare: int = 1 << 40, cost: int = 1000, fail: str = "") -> None:
        self.captured = self.replayed = 0
        self._spare, self._cost, self._fail = spare, cost, fail

    def capture(self, work: Work) -> Work:
        if self._fail:
            raise RuntimeError(self._fail)
        tape = Tape()
        with tape:
            work()
        self.captured += 1
        self._spare -= self._cost

        def replay() -> None:
            self.replayed += 1
            tape.replay()

        return replay

    def free(self) -> int:
        return self._spare


def tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]
