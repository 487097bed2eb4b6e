"""glibc's heap while a model loads: what is freed goes back. Knows nothing of what it holds."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # malloc.h
_LOADING = 256 << 10
_AFTER = 32 << 20
"""What glibc's own rule ends at: it raises the limit to the largest block that was freed."""


@contextmanager
def given_back() -> Iterator[None]:
    """Blocks over 256 kB are mapped one by one, so that none leaves a hole when it is freed.

    By glibc's own rule holes stay: 0.4 GB for a model of 1.3 GB (docs/log.md). Elsewhere nothing
    is done. Afterwards blocks of a step's size are kept for the next step, as ever.
    """
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if library is None or not hasattr(library, "mallopt"):  # musl has none
        yield
        return
    library.mallopt(_MMAP_THRESHOLD, _LOADING)
    try:
        yield
    finally:
        library.malloc_trim(0)
        library.mallopt(_MMAP_THRESHOLD, _AFTER)
        library.mallopt(_TRIM_THRESHOLD, 2 * _AFTER)
