"""Brings a model's files here and loads them, with phases as it goes. Knows files, sizes, devices.

Nothing of pairs: which model, and whether it fits, is decided by its callers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch

from specdec import device, memory
from specdec.device_test import tested
from specdec.linear import Form
from specdec.loading import Model, load_model
from specdec.options import EngineOptions
from specdec.pair import Phase
from specdec.registry import Entry, load_registry, local_entry
from specdec.sources import Store

Show = Callable[[Phase], None]


@dataclass(frozen=True, slots=True)
class Files:
    """A model's entry with the numbers read from its own config, its folder, and its source.

    `packed` is the GGUF file whose blocks stay as they are, where that was asked for.
    """

    entry: Entry
    folder: Path
    label: str
    packed: Path | None = None

    @property
    def told(self) -> str:
        """Where they come from, as a notice beside others; "" where there is nothing to say."""
        return f"{self.entry.id}: {self.label}" if self.label else ""


class Depot:
    """One load's view of the registry and the store."""

    def __init__(self, options: EngineOptions, show: Show, cancelled: Callable[[], bool]) -> None:
        self.options = options
        self.show = show
        self.registry = load_registry(options.data_dir)
        self.store = Store(options.data_dir, options.offline)
        self._cancelled = cancelled

    @property
    def cancelled(self) -> bool:
        """Whether nobody wants this load any more."""
        return self._cancelled()

    @property
    def hub_reachable(self) -> bool:
        """Whether anything can come from the hub now."""
        return not self.options.offline and self.store.hub.reachable()

    def ready(self, entry: Entry, packed: bool = False) -> Files:
        """Fetch and convert, and with `packed` keep the blocks. Raises SourceError or LoadError."""
        self.show(Phase("fetching", entry.id, "looking for it"))
        got = self.store.ready(entry, self.show, self._cancelled, packed)
        own = local_entry(got.folder)
        numbers = {
            "shape": own.shape or entry.shape,
            "context": own.context or entry.context,
            "bytes": own.bytes or entry.bytes,
        }
        return Files(entry.model_copy(update=numbers), got.folder, got.label, got.packed)

    def load(
        self,
        files: Files,
        where: torch.device,
        dtype: torch.dtype,
        form: Form,
        weights: str | None = None,
    ) -> Model:
        """Weights on the device. Raises LoadError, or DeviceError for one that computes wrongly.

        An Apple GPU is asked for a few passes first: what torch computes there has varied.
        """

        def layer(done: int, total: int) -> None:
            self.show(Phase("loading", files.entry.id, "", done, total))

        def read(dtype: torch.dtype) -> Model:
            return load_model(files.folder, where, dtype, form, layer, files.packed, weights)

        return tested(read, dtype) if where.type == "mps" else read(dtype)


def free_bytes(where: torch.device) -> int:
    """Free memory of the device, in bytes; of the machine for `cpu` and `mps`."""
    if where.type == "cuda":
        return int(torch.cuda.mem_get_info(where)[0])
    return memory.free_memory(where.type)


def memory_form(dtype: torch.dtype) -> memory.Form:
    """A dtype as `memory` names it."""
    return cast(memory.Form, device.SHORT[dtype])
