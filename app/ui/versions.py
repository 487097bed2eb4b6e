"""Under a message: the switch to its other versions, and Continue on a stopped reply. Wiring."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Protocol

import gradio as gr

from app.controller import Controller
from app.desk import Options
from app.line import Job
from app.live import Live
from app.session import Session
from app.ui.seen import lasting
from app.ui.visit import said, session_of
from specdec.errors import SpecdecError

Update = dict[Any, Any]
Start = Callable[[Session, Options], Job[Live]]


class Chatting(Protocol):
    """What is needed of the chat tab."""

    def start_reply(
        self, request: gr.Request, mode: str, values: tuple[Any, ...], start: Start, begun: Update
    ) -> AsyncIterator[Update]: ...

    def shown(self, session: Session, mode: str) -> Update: ...

    def cancel_edit(self, request: gr.Request) -> Update: ...


class VersionsWiring:
    """Handlers of buttons that are part of the thread's HTML."""

    def __init__(self, controller: Controller, chat: Any, chatting: Chatting) -> None:
        self.controller = controller
        self.chat = chat
        self.chatting = chatting

    def wire(self, parts: Sequence[Any], outputs: list[Any], controls: list[Any]) -> None:
        """Attach the handlers to the parts of the thread; the first control is the mode."""
        quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
        for part in parts:
            part.show(self.show, [*controls[:1], self.chat.edited], outputs, **quiet)
            part.go_on(self.go_on, controls, outputs, concurrency_limit=None, **quiet)

    def show(self, event: gr.EventData, mode: str, edited: int, request: gr.Request) -> Update:
        """Another version of a message, with what follows it; an edit under way ends."""
        session = session_of(self.controller, request)
        try:
            self.controller.desk.show(session, int(event.id))
        except SpecdecError as error:
            return {self.chat.notice: said(error)}
        ended = self.chatting.cancel_edit(request) if edited else {}
        return {**ended, **self.chatting.shown(session, mode)}

    @lasting
    async def go_on(
        self, request: gr.Request, event: gr.EventData, mode: str, *values: Any
    ) -> AsyncIterator[Update]:
        """Go on with the last reply; the controls move only what comes after it."""
        message = int(event.id)

        def start(session: Session, _: Options) -> Job[Live]:
            return self.controller.desk.go_on(session, message)

        async for update in self.chatting.start_reply(request, mode, values, start, {}):
            yield update
