"""Under each reply: Verify compares it with plain decoding, Tokens shows its rounds. Wiring."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import gradio as gr

from app.check import Check
from app.controller import Controller
from app.line import Job
from app.session import Session
from app.ui.halves import Halves
from app.ui.visit import said, session_of
from specdec.errors import SpecdecError

Update = dict[Any, Any]


class ProofWiring:
    """Handlers of the two buttons, which are part of the thread's HTML."""

    def __init__(self, controller: Controller, turns: Halves, notice: Any) -> None:
        self.controller = controller
        self.turns = turns
        self.notice = notice

    def wire(self) -> None:
        """Attach the handlers."""
        quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
        both = self.turns.both
        for part in both:
            part.verify(
                self.verify,
                None,
                [*both, self.notice],
                concurrency_limit=None,
                trigger_mode="multiple",  # the click that stops it comes while it goes on
                **quiet,
            )
            part.tokens(self.tokens, None, [*both], **quiet)

    async def verify(self, request: gr.Request, event: gr.EventData) -> AsyncIterator[Update]:
        """Compare one reply with plain decoding; a second click stops it."""
        session, message = session_of(self.controller, request), int(event.id)
        verifier = self.controller.verifier
        known = verifier.checks(session).get(message)
        if known is not None and known.step != "done":
            verifier.stop(session, message)  # whoever started it shows the end
            yield {self.notice: gr.skip()}
            return
        try:
            job = verifier.start(session, message)
        except SpecdecError as error:
            yield {self.notice: said(error)}
            return
        yield {self.notice: ""}
        async for update in self.follow(session, job):
            yield update

    def tokens(self, event: gr.EventData, request: gr.Request) -> Update:
        """Show where a reply's tokens came from, or no longer."""
        session = session_of(self.controller, request)
        session.opened ^= {int(event.id)}
        return self.turns.update(session, self.controller.thread(session))

    async def follow(self, session: Session, job: Job[Check]) -> AsyncIterator[Update]:
        """Show where a comparison stands, until the tab shows another conversation."""
        place = self.controller.chats.place(session)
        async for _ in self.controller.verifier.watch(job):
            if self.controller.chats.place(session) != place:
                yield {self.turns.head: gr.skip()}
                return
            yield self.turns.update(session, self.controller.thread(session))
