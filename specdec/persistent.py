"""Fetches a model and does not give up at the first broken connection. No torch of its own."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable

from specdec.errors import BrokenConnectionError
from specdec.folder import total
from specdec.pair import Phase
from specdec.registry import Entry
from specdec.sources import Fetched, Store
from specdec.transfer import Cancelled, Progress

WAITS = (1.0, 3.0, 10.0, 30.0)
"""Seconds before each further try; begun anew whenever bytes came."""


def fetch_model(
    store: Store,
    entry: Entry,
    progress: Progress,
    cancelled: Cancelled,
    waits: tuple[float, ...] = WAITS,
    sleep: Callable[[float], None] = time.sleep,
) -> Fetched:
    """`Store.ready`, tried again where the connection broke; what came is kept. Raises as it does.

    Each try goes on where the one before ended.
    """
    tries = 0
    most = total(store.downloads(entry))
    while True:
        try:
            return store.ready(entry, progress, cancelled)
        except BrokenConnectionError as error:
            here = total(store.downloads(entry))
            if here > most:
                most, tries = here, 0
            if tries == len(waits):
                raise
            why = error.message.rstrip(".")
            wait, tries = waits[tries], tries + 1
            told = f"{why}; trying again in {wait:.0f} s ({tries} of {len(waits)})"
            progress(Phase("fetching", entry.id, told, here))
            until = time.monotonic() + wait
            while time.monotonic() < until and not cancelled():
                sleep(min(0.1, wait))


def discard(store: Store, entry: Entry) -> None:
    """Delete what an unfinished fetch left. Raises SourceError while one goes on."""
    with store.lock(entry):
        shutil.rmtree(store.downloads(entry), ignore_errors=True)
