"""The Share button, its dialog and the line that says that it is shared. Wiring only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, fields
from typing import Any

import gradio as gr

from app import share_sheet
from app.controller import Controller
from app.guests import HOURS, LIMITS, GuestLimits
from app.session import Session
from app.sharing import ShareView
from app.ui.seen import HIDDEN, seen
from app.ui.visit import said, session_of
from app.words import tr, tr_n
from specdec.errors import SettingError, SpecdecError

Update = dict[Any, Any]
EVERY_S = 0.3
CHOICES = (1.0, 4.0, HOURS, 24.0)
OPEN = "() => window.specdec.dialog('share-sheet', window.specdec.tr('Share this model'))"
CLOSE = "() => document.querySelector('#share-sheet').closest('dialog').close()"


@dataclass(frozen=True, slots=True)
class Share:
    """Its components; `strip` is on the page for everybody, the rest for the owner."""

    strip: Any
    stop: Any
    open: Any
    column: Any
    sheet: Any
    notice: Any
    options: Any
    hours: Any
    limits: tuple[Any, ...]
    begin: Any
    end: Any
    close: Any


def button() -> Any:
    """In the list at the left edge."""
    return gr.Button(tr("Share"), elem_id="share", variant="secondary", size="sm")


def layout(button: Any) -> Share:
    """The line at the foot of the page, and the dialog, which assets/page.js opens."""
    with gr.Row(elem_id="shared"):
        strip = gr.HTML("", elem_id="shared-text", js_on_load=None, apply_default_css=False)
        stop = gr.Button(
            tr("End sharing"),
            elem_id="shared-end",
            size="sm",
            scale=0,
            min_width=110,
            visible=HIDDEN,
        )
    with gr.Column(elem_id="share-sheet", visible=False) as column:
        gr.HTML(f"<h2>{tr('Share this model')}</h2>", js_on_load=None, apply_default_css=False)
        sheet = gr.HTML(share_sheet.sheet(ShareView()), js_on_load=None, apply_default_css=False)
        with gr.Column(elem_id="share-options") as options:
            hours = gr.Radio(
                [(_time(hours), hours) for hours in CHOICES],
                value=HOURS,
                label=tr("Ends after"),
                elem_id="share-hours",
            )
            with gr.Accordion(tr("Limits for guests"), open=False):
                limits = tuple(
                    gr.Number(
                        getattr(GuestLimits(), one.name),
                        label=tr(LIMITS[one.name]).capitalize(),
                        precision=0,
                        minimum=1,
                    )
                    for one in fields(GuestLimits)
                )
        notice = gr.HTML("", js_on_load=None, apply_default_css=False)
        with gr.Row(elem_id="share-acts"):
            close = gr.Button(tr("Close"), elem_id="share-close", min_width=90)
            end = gr.Button(tr("End sharing"), variant="stop", elem_id="share-end", visible=False)
            begin = gr.Button(tr("Make a public link"), variant="primary", elem_id="share-begin")
    return Share(
        strip, stop, button, column, sheet, notice, options, hours, limits, begin, end, close
    )


class ShareWiring:
    """Handlers. `follow` keeps a tab up to date, whoever begins or ends it."""

    def __init__(self, controller: Controller, parts: Share) -> None:
        self.controller = controller
        self.parts = parts

    @property
    def outputs(self) -> list[Any]:
        """What `follow` changes."""
        parts = self.parts
        shown = [parts.strip, parts.stop, parts.open, parts.column, parts.sheet]
        return [*shown, parts.notice, parts.options, parts.begin, parts.end]

    def wire(self) -> None:
        """Attach the handlers."""
        parts = self.parts
        quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
        parts.open.click(None, None, None, js=OPEN)
        parts.close.click(None, None, None, js=CLOSE)
        parts.begin.click(
            self.begin,
            [parts.hours, *parts.limits],
            self.outputs,
            concurrency_limit=None,
            **quiet,
        )
        gr.on([parts.end.click, parts.stop.click], self.end, None, self.outputs, **quiet)

    async def begin(self, request: gr.Request, hours: float, *values: Any) -> AsyncIterator[Update]:
        """Make a link; a limit left empty is none."""
        session = session_of(self.controller, request)
        try:
            limits = GuestLimits(*(_bound(value) for value in values))
            self.controller.sharing.start(session, float(hours), limits)
        except SpecdecError as error:
            yield {self.parts.notice: said(error)}
            return
        yield self.shown(session)
        while self.controller.sharing.view(session).state == "opening":
            await asyncio.sleep(EVERY_S)
        yield self.shown(session)  # last: what `follow` sent meanwhile may have come before

    def end(self, request: gr.Request) -> Update:
        """At once, and without asking: a new link is a click away."""
        session = session_of(self.controller, request)
        try:
            self.controller.sharing.end(session)
        except SpecdecError as error:
            return {self.parts.notice: said(error)}
        return self.shown(session)

    async def follow(self, request: gr.Request) -> AsyncIterator[Update]:
        """What changes, for as long as the tab is open."""
        session = session_of(self.controller, request)
        last: object = None
        while not session.ended:
            now = self._seen(session)
            if now != last:
                yield self.shown(session)
                last = now
            await asyncio.sleep(EVERY_S)
        yield {self.parts.strip: share_sheet.ended()}

    def _seen(self, session: Session) -> object:
        if session.role != "owner":
            return self._guest(session)
        view = self.controller.sharing.view(session)
        return share_sheet.strip(view), share_sheet.sheet(view)

    def _guest(self, session: Session) -> str:
        shared = session.who.startswith("share:")
        seconds = self.controller.sharing.guest_s_left() if shared else None
        return share_sheet.guest_strip(self.controller.guests.left(session.who), seconds)

    def shown(self, session: Session) -> Update:
        """Everything as it stands."""
        parts = self.parts
        if session.role != "owner":
            return {parts.strip: self._guest(session)}
        view = self.controller.sharing.view(session)
        off = view.state == "off"
        return {
            parts.strip: share_sheet.strip(view),
            parts.stop: seen(not off),
            parts.open: gr.update(value=tr("Share") if off else tr("Shared")),
            parts.column: gr.update(visible=True),
            parts.sheet: share_sheet.sheet(view),
            parts.notice: "",
            parts.options: gr.update(visible=off),
            parts.begin: gr.update(visible=off),
            parts.end: gr.update(visible=not off),
        }


def _time(hours: float) -> str:
    days, rest = divmod(int(hours), 24)
    return tr_n("{n} hour", "{n} hours", int(hours)) if rest else tr_n("{n} day", "{n} days", days)


def _bound(value: Any) -> int | None:
    if value is None or value == "":
        return None
    try:
        return int(value)
    except (TypeError, ValueError):
        raise SettingError(
            tr("{text} is not a number.", text=repr(value)), tr("Give it a number, or none.")
        ) from None
