"""The chat tab: turns, the reply being written, the message box. Wiring only.

A handler asks the controller and watches; what it shows comes from `bubbles`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import gradio as gr

from app import attachment_view, bubbles
from app.attachments import attachments_of
from app.controller import Controller
from app.desk import Options
from app.line import Job
from app.live import Facts, Live
from app.markup import Growing
from app.session import Session
from app.ui import composer_layout, halves
from app.ui.reply_settings import ReplySettings, options_of
from app.ui.seen import lasting, seen
from app.ui.versions import VersionsWiring
from app.ui.visit import last_facts, pill_html, said, session_of
from app.words import tr
from specdec.errors import SettingError, SpecdecError

Update = dict[Any, Any]

BIND = """
window.specdec.bind(element, (act, data) => {
  if (act === 'edit') trigger('edit', data);
  if (act === 'regenerate') trigger('regenerate', data);
  if (act === 'show') trigger('show', data);
  if (act === 'continue') trigger('go_on', data);
  if (act === 'verify') trigger('verify', data);
  if (act === 'tokens') trigger('tokens', data);
});
"""


@dataclass(frozen=True, slots=True)
class Chat:
    """Its components. `edited` holds the id of the message being edited, 0 = none."""

    thread: Any
    tail: Any
    live: Any
    notice: Any
    fit: Any
    attached: Any
    clip: Any
    box: Any
    send: Any
    stop: Any
    cancel_edit: Any
    clear: Any
    mode: Any
    meter: Any
    edited: Any


def layout() -> Chat:
    """Turns above, message box below; both wait for `page.arrive`, which knows their values."""
    with gr.Column(elem_id="chat"):
        with gr.Column(elem_id="scroller"):
            turns = halves.layout(BIND)
            live = gr.HTML("", elem_id="live", js_on_load=None, apply_default_css=False)
        composer = composer_layout.layout()
    edited = gr.State(0)
    return Chat(thread=turns.head, tail=turns.tail, live=live, edited=edited, **composer)


def editing(role: str) -> str:
    """What sending does while a message of that role is being edited."""
    text = (
        tr(
            "Editing an earlier message: sending makes a new version; "
            "this one and what follows it are kept."
        )
        if role == "user"
        else tr(
            "Editing a reply: sending keeps your words beside the model's, "
            "marked as edited by hand. Nothing is generated."
        )
    )
    return f'<p class="note" role="status">{text}</p>'


class ChatWiring:
    """Handlers of the chat tab. `others` adds what else changes when a reply begins or ends."""

    def __init__(
        self,
        controller: Controller,
        chat: Chat,
        settings: ReplySettings,
        pill: Any,
        others: Callable[[Session], Update],
    ) -> None:
        self.controller = controller
        self.chat = chat
        self.turns = halves.Halves(chat.thread, chat.tail)
        self.settings = settings
        self.pill = pill
        self.others = others

    def wire(self, outputs: list[Any]) -> None:
        """Attach the handlers."""
        chat, controls = self.chat, [self.chat.mode, *self.settings.inputs]
        quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
        follow: dict[str, Any] = {**quiet, "outputs": outputs, "concurrency_limit": None}
        gr.on(
            [chat.send.click, chat.box.submit],
            self.send,
            [chat.box, chat.edited, *controls],
            **follow,
        )
        for part in self.turns.both:
            part.regenerate(self.regenerate, controls, **follow)
            gr.on([part.edit], self.edit, None, outputs, **quiet)
        VersionsWiring(self.controller, chat, self).wire(self.turns.both, outputs, controls)
        chat.cancel_edit.click(self.cancel_edit, None, outputs, **quiet)
        chat.stop.click(self.stop, None, None, **quiet)

    @lasting
    async def send(
        self, request: gr.Request, text: str, edited: int, mode: str, *values: Any
    ) -> AsyncIterator[Update]:
        """Send the message in the box, as a new version of the one being edited if there is one.

        A reply being edited is kept as it was worded: nothing answers it.
        """
        if edited and self._is_reply(request, edited):
            yield self._amend(request, edited, text, mode)
            return

        def start(session: Session, options: Options) -> Job[Live]:
            desk, files = self.controller.desk, session.tray.files
            if edited:
                job = desk.edit(session, edited, text, options, files)
            else:
                job = desk.send(session, text, options, files)
            session.tray.done()
            return job

        sent = {self.chat.box: ""}
        async for update in self.start_reply(request, mode, values, start, sent):
            yield update

    def _is_reply(self, request: gr.Request, message: int) -> bool:
        rows = self.controller.thread(session_of(self.controller, request)).rows
        return any(row.id == message and row.role == "assistant" for row in rows)

    def _amend(self, request: gr.Request, message: int, text: str, mode: str) -> Update:
        session = session_of(self.controller, request)
        if session.tray.files:
            return {
                self.chat.notice: said(
                    SettingError(tr("A reply takes no files."), tr("Remove them."))
                )
            }
        try:
            self.controller.desk.amend(session, message, text)
        except SpecdecError as error:
            return {self.chat.notice: said(error)}
        session.tray.done()
        return {**self.shown(session, mode), self.chat.box: "", self.chat.edited: 0}

    @lasting
    async def regenerate(
        self, request: gr.Request, event: gr.EventData, mode: str, *values: Any
    ) -> AsyncIterator[Update]:
        """Make one reply anew; what stands in the box stays there, as a new message."""
        message = int(event.id)

        def start(session: Session, options: Options) -> Job[Live]:
            return self.controller.desk.regenerate(session, options, message)

        async for update in self.start_reply(request, mode, values, start, {}):
            yield update

    async def start_reply(
        self,
        request: gr.Request,
        mode: str,
        values: tuple[Any, ...],
        start: Callable[[Session, Options], Job[Live]],
        begun: Update,
    ) -> AsyncIterator[Update]:
        """Have a reply made by `start` and watch it; `begun` is what else changes at once."""
        session = session_of(self.controller, request)
        try:
            options = options_of(mode, *values)
            job = start(session, options)
        except SpecdecError as error:
            yield {self.chat.notice: said(error)}
            return
        notice = ""
        try:
            self.controller.keep(session, options)
        except SpecdecError as error:  # the reply is being made all the same: show it
            notice = said(error)
        yield {**begun, self.chat.edited: 0, **self.shown(session, mode), self.chat.notice: notice}
        async for update in self.follow(session, job, mode):
            yield {**update, self.chat.notice: notice} if self.chat.notice in update else update

    async def follow(self, session: Session, job: Job[Live], mode: str) -> AsyncIterator[Update]:
        """Watch a reply to its end, or until the tab shows another conversation.

        Leaving does not end the reply.
        """
        growing, told = Growing(), self._told(session)
        place = self.controller.chats.place(session)
        facts, label = last_facts(self.controller, session), ""
        async for live in self.controller.watch(job):
            if self.controller.chats.place(session) != place:
                yield {self.chat.live: gr.skip()}  # gradio sends the last update once more
                return
            before, label = label, pill_html(self.controller, mode, facts)
            update = {self.chat.live: bubbles.live(live, growing, told)}
            yield update if label == before else {**update, self.pill: label}
        if self.controller.chats.place(session) == place:
            yield self.shown(session, mode)

    def _told(self, session: Session) -> tuple[str, ...]:
        """What stands under the last finished reply already."""
        thread = self.controller.thread(session)
        done = [r for r in thread.rows if r.role == "assistant" and r.id != thread.writing]
        return bubbles.notices(done[-1]) if done else ()

    def shown(self, session: Session, mode: str) -> Update:
        """Everything the chat tab shows, from what is stored."""
        thread, last = self.controller.thread(session), last_facts(self.controller, session)
        writing = thread.writing is not None
        comparing = any(check.step != "done" for check in thread.checks.values())
        session.unfinished = writing or comparing
        return {
            **self.turns.update(session, thread),
            self.chat.live: gr.skip() if writing else "",
            self.chat.notice: "",
            self.chat.fit: "",
            self.chat.attached: attachment_view.chips(session.tray.items()),
            self.chat.send: seen(not writing),
            self.chat.stop: seen(writing),
            self.chat.cancel_edit: seen(False),
            self.chat.meter: self.meter(last),
            self.pill: pill_html(self.controller, mode, last),
            **self.others(session),
        }

    def meter(self, last: Facts | None) -> str:
        pair = self.controller.status().pair
        used = last.metrics.prompt_tokens + last.metrics.new_tokens if last else 0
        return bubbles.meter(used, pair.context if pair else 0)

    def stop(self, request: gr.Request) -> None:
        """The reply ends within one round; `follow` shows what is left of it."""
        self.controller.desk.stop(session_of(self.controller, request))

    def edit(self, event: gr.EventData, request: gr.Request) -> Update:
        """Take an earlier message back into the box."""
        session = session_of(self.controller, request)
        thread = self.controller.thread(session)
        row = next((row for row in thread.rows if row.id == int(event.id)), None)
        if row is None:
            gone = tr("That message is gone. Reload the page.")
            return {self.chat.notice: f'<p class="error">{gone}</p>'}
        session.tray.edit(attachments_of(row.request))
        return {
            self.chat.attached: attachment_view.chips(session.tray.items()),
            self.chat.box: gr.update(value=row.content, autofocus=True),
            self.chat.edited: row.id,
            self.chat.notice: editing(row.role),
            self.chat.cancel_edit: seen(True),
        }

    def cancel_edit(self, request: gr.Request) -> Update:
        session = session_of(self.controller, request)
        session.tray.done()
        return {
            self.chat.attached: attachment_view.chips(session.tray.items()),
            self.chat.box: "",
            self.chat.edited: 0,
            self.chat.notice: "",
            self.chat.cancel_edit: seen(False),
        }
