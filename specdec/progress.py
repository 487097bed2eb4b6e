"""Work that reports through a callback, as a generator of its reports. Knows threads only."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator
from typing import TypeVar

Report = TypeVar("Report")
Result = TypeVar("Result")


def relay(work: Callable[[Callable[[Report], None]], Result]) -> Generator[Report, None, Result]:
    """Run `work(show)` in a thread, yield what it shows, return its result or raise its error.

    When the generator is closed early the thread runs on to its end; `work` should look at a
    cancel flag of its own.
    """
    reports: queue.SimpleQueue[tuple[str, Report | None]] = queue.SimpleQueue()
    results: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work(lambda report: reports.put(("report", report))))
        except BaseException as error:  # handed to the caller's thread, where it is raised
            errors.append(error)
        finally:
            reports.put(("end", None))

    threading.Thread(target=run, daemon=True).start()
    while True:
        kind, report = reports.get()
        if kind == "end":
            break
        yield report  # type: ignore[misc]
    if errors:
        raise errors[0]
    return results[0]
