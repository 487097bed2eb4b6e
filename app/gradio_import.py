"""The first import of gradio: its telemetry off, its type stubs left alone. Knows nothing else.

gradio 6.31 parses and renders a .pyi file for each of its components whenever it is imported (over
40 % of the time that takes), and skips a component whose class comes from no file.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def import_gradio() -> None:
    """Call before anything else imports gradio: it reads these variables while it is imported."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    with without_stubs():
        import gradio  # noqa: F401


@contextmanager
def without_stubs() -> Iterator[None]:
    """Inside, `inspect.getfile` knows no file for gradio's classes; put back on every exit."""
    real = inspect.getfile

    def getfile(found: Any) -> str:
        if inspect.isclass(found) and found.__module__.startswith("gradio."):
            raise OSError("type stubs are not wanted")
        return real(found)

    setattr(inspect, "getfile", getfile)  # noqa: B010  (mypy wants the parameter named `object`)
    try:
        yield
    finally:
        inspect.getfile = real
