"""The turns in two parts: what a tab already shows, and what came since. Wiring and its HTML.

A page with 200 turns takes seconds to draw them; so a new turn is added without the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from app import bubbles
from app.chats import Thread
from app.session import Session

MORE = 40
"""Turns added to what was drawn at once, before all are drawn as one again."""


@dataclass(frozen=True, slots=True)
class Halves:
    """The two components. Buttons in both speak to the same handlers."""

    head: Any
    tail: Any

    @property
    def both(self) -> tuple[Any, Any]:
        return self.head, self.tail

    def update(self, session: Session, shown: Thread) -> dict[Any, Any]:
        """What changes in this tab: the tail alone where the head would stay as it is."""
        turns = bubbles.turns(shown)
        count, more, drawn = session.drawn
        fresh = _digest(shown, turns[:count]) != drawn
        if not count or fresh or len(turns) < count or len(turns) - count > more + MORE:
            count = bubbles.settled(shown, turns)
            session.drawn = (count, len(turns) - count, _digest(shown, turns[:count]))
            head = bubbles.frame(shown, turns[:count])
        else:
            head = gr.skip()
        return {self.head: head, self.tail: bubbles.further(turns[count:])}


def layout(bind: str) -> Halves:
    """One above the other, in one frame. `bind` gives both their events."""
    with gr.Column(elem_id="thread"):
        head = gr.HTML(
            bubbles.thread(Thread()), elem_id="head", js_on_load=bind, apply_default_css=False
        )
        tail = gr.HTML("", elem_id="tail", js_on_load=bind, apply_default_css=False)
    return Halves(head, tail)


def _digest(shown: Thread, turns: Sequence[str]) -> str:
    text = "\0".join([shown.conversation, *turns])
    return hashlib.sha256(text.encode()).hexdigest()
