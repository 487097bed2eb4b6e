"""Captured calls: work recorded once over buffers that stay, then repeated by the device alone.

Knows devices and how much may be captured; nothing of models, tokens or caches.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Protocol

import torch

from specdec.memory import size_text
from specdec.pair import Choice

Work = Callable[[], None]

MOST = 64
"""Captured calls one runner keeps: 8 numbers of rows at 8 sizes of cache."""

RESERVE = 1 << 30
"""Bytes that must stay free beside a new capture: a reply's own work must not run out."""

BUDGET = 2 << 30
"""Bytes all captures of one runner may take. They share one pool, so this is far away."""

WARM_UPS = 2


class Device(Protocol):
    """What can record work and repeat it."""

    def capture(self, work: Work) -> Work:
        """Record `work`; what is returned repeats it on the same memory. Raises RuntimeError."""

    def free(self) -> int:
        """Bytes that can still be allocated."""


class Cuda:
    """torch's CUDA graphs. The memory of all captures is one pool: they never run at once."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle()

    def capture(self, work: Work) -> Work:
        """Warm up on a side stream, as torch's notes on CUDA graphs ask, then record."""
        with torch.cuda.device(self._device):
            side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(WARM_UPS):
                    work()
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._pool):
                work()
        replay: Work = graph.replay
        return replay

    def free(self) -> int:
        """What the driver has left, and what torch holds without using it."""
        left, _ = torch.cuda.mem_get_info(self._device)
        held = torch.cuda.memory_reserved(self._device)
        return int(left) + held - torch.cuda.memory_allocated(self._device)


class Graphs:
    """The captured calls of one runner, bounded in number and memory.

    What was used least lately gives way. Once a capture fails, or memory is short, no more are
    made, and `choice` says why; work without one simply runs.
    """

    def __init__(
        self, device: Device, most: int = MOST, reserve: int = RESERVE, budget: int = BUDGET
    ) -> None:
        self.most = most
        self._device = device
        self._reserve = reserve
        self._budget = budget
        self._held: OrderedDict[Hashable, Work] = OrderedDict()
        self._taken = 0
        self._why = ""

    @property
    def choice(self) -> Choice:
        """Whether calls are captured, and why not."""
        if self._why:
            return Choice("eager" if not self._held else "partly captured", self._why)
        return Choice("captured", f"{len(self._held)} calls in {size_text(self._taken)}")

    @property
    def count(self) -> int:
        """Captured calls held."""
        return len(self._held)

    @property
    def open(self) -> bool:
        """Whether more may be captured."""
        return not self._why

    def get(self, key: Hashable, work: Work, same: Callable[[Work], bool]) -> Work:
        """What repeats `work`; `work` itself when it cannot be captured.

        `same` tells, by running it, whether a capture computes what `work` does. One that does not
        ends all capturing, and what was captured before is not trusted either.
        """
        if key in self._held:
            self._held.move_to_end(key)
            return self._held[key]
        if self._why:
            return work
        free = self._device.free()
        if free < self._reserve:
            self._why = f"only {size_text(free)} are free, {size_text(self._reserve)} must stay"
            return work
        if self._taken > self._budget:
            self._why = f"captured calls take {size_text(self._taken)}, more than they may"
            return work
        while len(self._held) >= self.most:
            self._held.popitem(last=False)
        try:
            replay = self._device.capture(work)
        except RuntimeError as error:  # out of memory is one of them
            self._why = f"a call could not be captured: {str(error).partition(chr(10))[0]}"
            return work
        self._taken += max(0, free - self._device.free())
        if not same(replay):
            self._held.clear()
            self._why = "a captured call computed something else than the same call run plainly"
            return work
        self._held[key] = replay
        return replay
