"""Folded parts under the list: a token for gated models, files of one's own. Wiring only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

import gradio as gr

from app import hub_token
from app.controller import Controller
from app.session import Session
from app.ui.visit import said, session_of
from app.words import tr
from specdec.errors import SpecdecError

Update = dict[Any, Any]

TOKENS = (
    '<a href="https://huggingface.co/settings/tokens" target="_blank" rel="noopener noreferrer">'
    "huggingface.co/settings/tokens</a>"
)


@dataclass(frozen=True, slots=True)
class Access:
    """Its components."""

    state: Any
    token: Any
    keep: Any
    remove: Any
    path: Any
    add: Any
    told: Any


def layout() -> Access:
    """Two folded parts."""
    with gr.Accordion(tr("Add a folder or a GGUF file of your own"), open=False):
        path = gr.Textbox("", label=tr("Path on this machine"), max_lines=1, elem_id="own-path")
        add = gr.Button(tr("Add"), elem_id="own-add", scale=0, min_width=90)
        told = gr.HTML("", elem_id="own-told", js_on_load=None, apply_default_css=False)
    with gr.Accordion(tr("Access to gated models"), open=False):
        gr.HTML(f'<p class="quiet">{_about()}</p>', js_on_load=None, apply_default_css=False)
        state = gr.HTML("", elem_id="token-state", js_on_load=None, apply_default_css=False)
        token = gr.Textbox(
            "", label=tr("Access token"), type="password", elem_id="token", max_lines=1
        )
        with gr.Row():
            keep = gr.Button(tr("Keep token"), elem_id="token-keep", scale=0, min_width=150)
            remove = gr.Button(tr("Remove token"), elem_id="token-remove", scale=0, min_width=170)
    return Access(state, token, keep, remove, path, add, told)


def _about() -> str:
    return tr(
        "Ask for access on the model's page, then make a token with read access at {page}. "
        "It is kept in {place}.",
        page=TOKENS,
        place=escape(tr(hub_token.PLACE)),
    )


class AccessWiring:
    """Handlers; a guest's call is refused by the shelf."""

    def __init__(self, controller: Controller, parts: Access) -> None:
        self.controller = controller
        self.parts = parts

    def wire(self) -> Any:
        """The event after which a new model may be in the list."""
        parts = self.parts
        quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
        outputs = [parts.state, parts.token]
        parts.keep.click(self.keep, parts.token, outputs, **quiet)
        parts.remove.click(self.remove, None, outputs, **quiet)
        return parts.add.click(self.add, parts.path, [parts.told, parts.path], **quiet)

    def state_html(self) -> str:
        """Whether there is a token; nothing of it."""
        if not hub_token.known():
            text = tr("No token is kept. Gated models need one; all others do not.")
        elif hub_token.from_environment():
            text = tr("A token comes from HF_TOKEN in the environment.")
        else:
            text = tr(
                "A token is kept. It is never shown, logged or put into this program's settings."
            )
        return f'<p class="quiet" role="status">{text}</p>'

    async def keep(self, token: str, request: gr.Request) -> Update:
        """The box is emptied whatever comes of it."""
        shelf = self.controller.model_shelf
        return await self._token(request, lambda session: shelf.keep_token(session, token))

    async def remove(self, request: gr.Request) -> Update:
        return await self._token(request, self.controller.model_shelf.remove_token)

    async def add(self, path: str, request: gr.Request) -> Update:
        """Look at the files, and put them on the list."""
        session = session_of(self.controller, request)
        try:
            name = await asyncio.to_thread(self.controller.model_shelf.add_path, session, path)
        except SpecdecError as error:
            return {self.parts.told: said(error)}
        text = escape(tr("{name} is on the list.", name=name))
        text = f'<p class="quiet" role="status">{text}</p>'
        return {self.parts.told: text, self.parts.path: ""}

    async def _token(self, request: gr.Request, act: Callable[[Session], None]) -> Update:
        session = session_of(self.controller, request)
        try:
            await asyncio.to_thread(act, session)
        except SpecdecError as error:
            return {self.parts.state: said(error), self.parts.token: ""}
        return {self.parts.state: self.state_html(), self.parts.token: ""}
