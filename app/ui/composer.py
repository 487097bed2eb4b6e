"""What stands around the message box: the paper clip, its files, the count before sending. Wiring.

Files are read in the browser and come as data of an event: no upload route is opened for anybody.
"""

from __future__ import annotations

import base64
import binascii
import itertools
from collections.abc import Callable
from typing import Any

import gradio as gr

from app import attachment_view
from app.attachments import MAX_FILE, plain_name, too_large
from app.controller import Controller
from app.live import Facts
from app.session import Session
from app.ui import reply_settings
from app.ui.visit import last_facts, said, session_of
from app.words import tr
from specdec.errors import SettingError, SpecdecError

Update = dict[Any, Any]


class ComposerWiring:
    """Handlers of what stands around the box. `meter` shows the context as the last reply left it.

    They count one after the other, all visitors together, and never in the way of a reply.
    """

    def __init__(
        self, controller: Controller, chat: Any, meter: Callable[[Facts | None], str]
    ) -> None:
        self.controller = controller
        self.chat = chat
        self.meter = meter
        self._nth = itertools.count(1)

    def wire(self, controls: list[Any]) -> None:
        """`controls`: the mode switch and the inputs of the drawer."""
        chat = self.chat
        inputs = [chat.box, chat.edited, *controls]
        quiet: dict[str, Any] = {
            "show_progress": "hidden",
            "api_visibility": "private",
            "concurrency_id": "count",
            "concurrency_limit": 1,
        }
        shown = [chat.meter, chat.fit]
        chat.clip.attach(
            self.attach, inputs, [chat.attached, chat.notice, *shown],
            trigger_mode="multiple", **quiet,
        )  # fmt: skip
        chat.attached.detach(
            self.detach, inputs, [chat.attached, *shown], trigger_mode="multiple", **quiet
        )
        chat.clip.count(self.count, inputs, shown, trigger_mode="always_last", **quiet)

    def attach(
        self, request: gr.Request, event: gr.EventData, text: str, edited: int, *values: Any
    ) -> Update:
        """Read the files that came; each that cannot be taken gets its line."""
        session = session_of(self.controller, request)
        refused = []
        for file in _listed(event):
            try:
                name, data = _contents(file)
                self.controller.composer.attach(session, name, data)
            except SpecdecError as error:
                refused.append(said(error))
        return {
            self.chat.notice: self._lines(refused),
            self.chat.attached: attachment_view.chips(session.tray.items()),
            **self._counted(session, text, edited, values),
        }

    def _lines(self, refused: list[str]) -> str:
        """Never the same twice: a message that is sent meanwhile waits until something changes."""
        return f'<div data-nth="{next(self._nth)}">{"".join(refused)}</div>' if refused else ""

    def detach(
        self, request: gr.Request, event: gr.EventData, text: str, edited: int, *values: Any
    ) -> Update:
        """Take one away again."""
        session = session_of(self.controller, request)
        number = str(event.id)
        session.tray.remove(int(number) if number.isdecimal() else 0)
        return {
            self.chat.attached: attachment_view.chips(session.tray.items()),
            **self._counted(session, text, edited, values),
        }

    def count(self, request: gr.Request, text: str, edited: int, *values: Any) -> Update:
        """What the message would come to as it stands."""
        return self._counted(session_of(self.controller, request), text, edited, values)

    def _counted(self, session: Session, text: str, edited: int, values: tuple[Any, ...]) -> Update:
        try:
            options = reply_settings.options_of(*values)
        except SpecdecError:  # said beside the control, and again when the message is sent
            return {self.chat.meter: gr.skip(), self.chat.fit: gr.skip()}
        found = self.controller.composer.fit(session, text or "", options, edited)
        if found is not None:
            shown = attachment_view.meter(found), attachment_view.warning(found)
        elif (text or "").strip() or session.tray.files:
            shown = "", ""  # nobody could count: nothing rather than a guess
        else:
            shown = self.meter(last_facts(self.controller, session)), ""
        return {self.chat.meter: shown[0], self.chat.fit: shown[1]}


def _listed(event: gr.EventData) -> list[dict[str, Any]]:
    found = event._data.get("files", []) if isinstance(event._data, dict) else []
    return [file for file in found if isinstance(file, dict)]


def _contents(file: dict[str, Any]) -> tuple[str, bytes]:
    """Name and bytes as the browser sent them. Raises SettingError where it could not."""
    name, size = str(file.get("name", "")), file.get("size")
    if not isinstance(size, int) or size < 0:
        raise SettingError(
            tr("{name} could not be read.", name=plain_name(name)), tr("Attach files, not folders.")
        )
    if size > MAX_FILE:
        raise too_large(name, size)
    try:
        data = base64.b64decode(str(file.get("data", "")), validate=True)
    except binascii.Error as error:
        raise SettingError(
            tr("{name} came damaged.", name=plain_name(name)), tr("Attach it again.")
        ) from error
    if size and not data:
        raise SettingError(
            tr("{name} was not attached: too much came at once.", name=plain_name(name)),
            tr("Attach fewer files."),
        )
    return name, data
