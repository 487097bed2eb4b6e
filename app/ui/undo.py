"""Deleting without a question: "Deleted “title”. Undo" for ten seconds. Wiring and its HTML."""

from __future__ import annotations

from html import escape
from typing import Any

import gradio as gr

from app.controller import Controller
from app.session import Session
from app.ui.history_list import HistoryWiring
from app.undo import Gone
from app.words import tr

Update = dict[Any, Any]

BIND = """
window.specdec.bind(element, (act, data) => { if (act === 'undo') trigger('undo', data); });
"""


def layout() -> Any:
    """Empty until something is deleted; it lies over whatever tab is shown."""
    return gr.HTML("", elem_id="undo", js_on_load=BIND, apply_default_css=False)


def toast(gone: Gone) -> str:
    """One line and a button; the style sheet takes it away by itself."""
    if gone.what == "Deleted":
        this, named = tr("Deleted this conversation."), tr("Deleted “{title}”.", title=gone.title)
    else:
        this, named = tr("Cleared this conversation."), tr("Cleared “{title}”.", title=gone.title)
    return (
        f'<div class="toast" role="status" data-id="{escape(gone.conversation)}">'
        f"<span>{escape(named if gone.title else this)}</span>"
        f'<button type="button" data-act="undo">{tr("Undo")}</button></div>'
    )


class UndoWiring:
    """Handlers of Delete in the list, of Clear under the chat, and of Undo."""

    def __init__(
        self, controller: Controller, place: Any, chat: Any, history: HistoryWiring
    ) -> None:
        self.controller = controller
        self.place = place
        self.chat = chat
        self.history = history

    def wire(self, outputs: list[Any]) -> None:
        """Attach the handlers."""
        quiet: dict[str, Any] = {
            "outputs": [*outputs, self.history.system, self.place],
            "show_progress": "hidden",
            "api_visibility": "private",
        }
        mode = [self.chat.mode]
        self.history.parts.chats.remove(self.remove, mode, **quiet)
        self.chat.clear.click(self.clear, mode, **quiet)
        self.place.undo(self.undo, mode, **quiet)

    def remove(self, event: gr.EventData, mode: str, request: gr.Request) -> Update:
        """Out of the list at once."""
        conversation = str(event.id)
        return self._told(request, mode, lambda s: self.controller.deleting.delete(s, conversation))

    def clear(self, mode: str, request: gr.Request) -> Update:
        """The turns of this conversation; it stays in the list."""
        return self._told(request, mode, self.controller.deleting.clear)

    def undo(self, mode: str, request: gr.Request) -> Update:
        """What was deleted last is back."""
        done = self.history.then(request, mode, self.controller.deleting.undo)
        return {**done, self.place: ""}

    def _told(self, request: gr.Request, mode: str, act: Any) -> Update:
        found: list[Gone] = []

        def acted(session: Session) -> None:
            if (gone := act(session)) is not None:
                found.append(gone)

        done = self.history.then(request, mode, acted)
        return {**done, self.place: toast(found[0]) if found else gr.skip()}
