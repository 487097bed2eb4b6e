"""The whole page: parts side by side, and what happens when a tab opens or closes. Wiring only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from html import escape
from typing import Any

import gradio as gr

from app import bubbles
from app.controller import Controller
from app.desk import Options
from app.session import Session
from app.ui import (
    bench,
    chat,
    composer,
    history_list,
    hub_finder,
    model_access,
    model_library,
    presets,
    proof,
    race,
    reply_settings,
    settings_panel,
    sharing,
    undo,
)
from app.ui.seen import lasting
from app.ui.theme import look as look
from app.ui.visit import last_facts, pill_html, session_of
from app.view import Label
from app.words import tr
from specdec.errors import SpecdecError

Update = dict[Any, Any]
NARROW = 900
"""Pixels; below this the list of conversations starts folded away."""

FOCUS = "() => requestAnimationFrame(() => document.querySelector('#message textarea')?.focus())"


def build(controller: Controller) -> gr.Blocks:
    """The page over a controller; serve it with `look()`."""
    with gr.Blocks(title="specdec chat", fill_height=True, analytics_enabled=False) as page:
        _Page(controller).wire(page)
    return page


class _Page:
    def __init__(self, controller: Controller) -> None:
        self.controller = controller
        self.history = history_list.layout()
        self.pill = gr.HTML(
            bubbles.pill(Label(tr("starting"), "busy", "")),
            elem_id="pill",
            js_on_load=None,
            apply_default_css=False,
        )
        with gr.Tabs(elem_id="tabs"):
            with gr.Tab(tr("Chat"), id="chat"):
                self.chat = chat.layout()
            with gr.Tab(tr("Race"), id="race"):
                self.race = race.layout()
            self.bench = bench.layout()
            with (
                gr.Tab(tr("Models"), id="models", visible=False) as self.models_tab,
                gr.Column(elem_id="models"),
                gr.Tabs(elem_id="models-tabs"),
            ):
                with gr.Tab(tr("This pair"), id="pair"):
                    self.models = settings_panel.layout()
                with gr.Tab(tr("All models"), id="all"):
                    self.library = model_library.layout()
                    self.finder = hub_finder.layout()
                    self.access = model_access.layout()
        self.settings = reply_settings.layout()
        with self.history.side:
            share = sharing.button()
        self.share = sharing.layout(share)
        self.undo = undo.layout()
        self.width = gr.Number(0, visible=False, label="Window width")

    def wire(self, page: gr.Blocks) -> None:
        history = history_list.HistoryWiring(
            self.controller, self.history, self.chat, self.settings.inputs[0], self._shown
        )
        self.chatting = chat.ChatWiring(
            self.controller, self.chat, self.settings, self.pill, history.refresh
        )
        composer.ComposerWiring(self.controller, self.chat, self.chatting.meter).wire(
            self._controls()
        )
        self.loading = settings_panel.ModelsWiring(
            self.controller, self.models, self.pill, self._label
        )
        outputs = [*_components(self.chat), self.pill, self.history.chats]
        outputs.remove(self.chat.mode)
        self.chatting.wire(outputs)
        self.proof = proof.ProofWiring(self.controller, self.chatting.turns, self.chat.notice)
        self.proof.wire()
        history.wire(outputs, self.follow)
        undo.UndoWiring(self.controller, self.undo, self.chat, history).wire(outputs)
        share = sharing.ShareWiring(self.controller, self.share)
        share.wire()
        bench.BenchWiring(self.controller, self.bench).wire(page)
        self.loading.wire(self.chat.mode)
        self.shelving = model_library.LibraryWiring(
            self.controller, self.library, self.loading.watch
        )
        self.shelving.wire(self.chat.mode, self.loading.outputs())
        self.accessing = model_access.AccessWiring(self.controller, self.access)
        found = hub_finder.FinderWiring(self.controller, self.finder)
        added = (self.accessing.wire(), found.wire(self.library.search))
        self._wire_settings()
        self.presets = presets.PresetWiring(self.controller, self.settings.presets)
        self.presets.wire(self._controls())
        quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
        arrived = page.load(
            self.arrive,
            [self.width],
            [
                *outputs,
                *self._controls(),
                self.models_tab,
                self.history.side,
                *self.presets.outputs,
            ],
            js="() => [window.innerWidth]",
            **quiet,
        )
        mode = [self.chat.mode]
        arrived.then(None, None, None, js=FOCUS)
        arrived.then(self.follow, mode, outputs, concurrency_limit=None, **quiet)
        arrived.then(
            self.watch_load,
            mode,
            [self.pill, *_components(self.models)],
            concurrency_limit=None,
            **quiet,
        )
        race.RaceWiring(self.controller, self.race, self.settings).wire(self.chat.mode, arrived)
        arrived.then(share.follow, None, share.outputs, concurrency_limit=None, **quiet)
        for event in (arrived, *added):
            event.then(
                self.watch_shelf,
                [self.library.search, self.chat.mode],
                [*_components(self.library), *self.loading.outputs(), self.access.state],
                concurrency_limit=None,
                **quiet,
            )
        page.unload(self.leave)

    def _wire_settings(self) -> None:
        controls = [self.chat.mode, *self.settings.inputs]
        quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
        gr.on(
            [
                control.input if control is self.settings.inputs[0] else control.change
                for control in controls
            ],
            self.changed,
            controls,
            [self.settings.effective, self.pill],
            trigger_mode="always_last",
            **quiet,
        )
        self.settings.reset.click(
            lambda: reply_settings.values_of(Options()), None, controls, **quiet
        )

    def _controls(self) -> list[Any]:
        return [self.chat.mode, *self.settings.inputs]

    def _label(self, session: Session, mode: str) -> str:
        return pill_html(self.controller, mode, last_facts(self.controller, session))

    def _shown(self, session: Session, mode: str) -> Update:
        return self.chatting.shown(session, mode)

    def arrive(self, request: gr.Request, width: float) -> Update:
        """A tab opened: show the conversation its address names, or the latest.

        Until then nothing can be written or moved: it would be overwritten, or sent with defaults.
        """
        session = session_of(self.controller, request)
        owner = session.role == "owner"
        if owner and not session.conversation:
            self._find(session, str(request.query_params.get("c", "")))
        options = self.controller.options(session)
        thread = self.controller.thread(session)
        if thread.conversation:
            options = replace(options, system=thread.system)
        values = reply_settings.values_of(options)
        shown = self._shown(session, options.mode)
        if owner and self.controller.notices:
            shown[self.chat.notice] = "".join(
                f'<p class="note">{escape(text)}</p>' for text in self.controller.notices
            )
        return {
            **shown,
            **{
                control: gr.update(value=value, interactive=True)
                for control, value in zip(self._controls(), values, strict=True)
            },
            self.chat.box: gr.update(interactive=True),
            self.models_tab: gr.update(visible=owner),
            self.history.side: gr.Sidebar(visible=owner, open=owner and width > NARROW),
            **self.presets.update(session, options),
        }

    def _find(self, session: Session, named: str) -> None:
        if named == "new":
            return
        known = self.controller.chats.list(session)
        latest = max(known, key=lambda chat: chat.updated, default=None)
        chosen = next((chat for chat in known if chat.id == named), latest)
        session.conversation = chosen.id if chosen else ""

    @lasting
    async def follow(self, mode: str, request: gr.Request) -> AsyncIterator[Update]:
        """Watch the reply or the comparison of the conversation shown, if one goes on."""
        session = session_of(self.controller, request)
        job, check = self.controller.desk.active(session), self.controller.verifier.running(session)
        if job is not None:
            async for update in self.chatting.follow(session, job, mode):
                yield update
        elif session.unfinished:  # what went on may have ended since the turns were drawn
            yield {**self._shown(session, mode), self.chat.notice: gr.skip()}
        else:
            yield {self.pill: self._label(session, mode)}
        if check is not None:
            async for update in self.proof.follow(session, check):
                yield update

    async def watch_load(self, mode: str, request: gr.Request) -> AsyncIterator[Update]:
        """Watch the first load, or one another tab asked for."""
        session = session_of(self.controller, request)
        if session.role == "owner":
            yield {self.models.idle: self.controller.unloading.minutes(session)}
        async for update in self.loading.watch(session, mode):
            yield update

    @lasting
    async def watch_shelf(
        self, query: str, mode: str, request: gr.Request
    ) -> AsyncIterator[Update]:
        """The list of models, and a download that goes on."""
        session = session_of(self.controller, request)
        if session.role == "owner":
            yield {self.access.state: self.accessing.state_html()}
        async for update in self.shelving.watch(session, query, mode):
            yield update

    def changed(self, request: gr.Request, mode: str, *values: Any) -> Update:
        """A control moved: say what it comes to, and remember it for the owner."""
        session = session_of(self.controller, request)
        label = {self.pill: self._label(session, mode)}
        try:
            options = reply_settings.options_of(mode, *values)
            self.controller.keep(session, options)
        except SpecdecError as error:
            text = f'<p class="error">{escape(str(error))}</p>'
            return {self.settings.effective: text, **label}
        return {self.settings.effective: reply_settings.effective_html(options), **label}

    def leave(self, request: gr.Request) -> None:
        self.controller.leave(request.session_hash or "")


def _components(parts: Any) -> list[Any]:
    return [getattr(parts, name) for name in parts.__dataclass_fields__]
