"""Parts of the page that come and go.

gradio 6.31 puts a part with `visible=False` on the page only when it is shown, and that takes it a
moment. What must be at hand at once is there from the start instead, `HIDDEN`; not in a tab that
was not opened yet or in a part that is not shown, where such an update is lost.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable
from typing import Any, Literal

import gradio as gr

Update = dict[Any, Any]
Handler = Callable[..., AsyncIterator[Update]]

HIDDEN: Literal["hidden"] = "hidden"
"""What `visible` is at first: drawn, and not seen."""


def seen(on: bool) -> Any:
    """The update that shows such a part, or hides it."""
    return gr.update(visible=True if on else HIDDEN)


def lasting(handler: Handler) -> Handler:
    """A handler that says again, with each update, what it showed or hid before.

    gradio 6.31's page lost what was shown once in half the runs (docs/log.md); it seems to change
    an answer in place when the next one comes, drawn or not. An answer that only skips stays so.
    A handler with nothing to say skips: gradio empties every output of one that is silent.
    """

    @functools.wraps(handler)
    async def wrapped(*args: Any) -> AsyncIterator[Update]:
        said: Update = {}
        silent = True
        async for update in handler(*args):
            silent = False
            said |= {part: change for part, change in update.items() if _only_shows(change)}
            skips = all(change == gr.skip() for change in update.values())
            yield update if skips else {**said, **update}
        if silent:
            yield gr.skip()

    return wrapped


def _only_shows(change: Any) -> bool:
    return isinstance(change, dict) and change.keys() == {"__type__", "visible"}
