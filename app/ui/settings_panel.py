"""The models tab: what is loaded and why, and the menus that change it. The owner's only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import gradio as gr

from app import bubbles, pair_sheet
from app.chats import owner_only
from app.controller import Controller
from app.memory_bar import bar
from app.session import Session
from app.settings import LONGEST_IDLE
from app.shelf_view import going_html
from app.ui.visit import said, session_of
from app.words import tr
from specdec.errors import SettingError, SpecdecError
from specdec.pairing import WITHOUT_FILES

Update = dict[Any, Any]
EVERY_S = 0.25


@dataclass(frozen=True, slots=True)
class Models:
    """Its components."""

    target: Any
    draft: Any
    load: Any
    unload: Any
    idle: Any
    plan: Any
    sheet: Any


BIND = """
window.specdec.bind(element, (act, data) => { if (act === 'take') trigger('take', data); });
"""


def layout() -> Models:
    """Two menus, two buttons, the reasons, and when to unload unasked."""
    with gr.Row(elem_id="pick"):
        target = gr.Dropdown([(tr("Choose for this machine"), "")], value="", label=tr("Target"))
        draft = gr.Dropdown([(tr("Choose for this target"), "")], value="", label=tr("Draft"))
        load = gr.Button(tr("Load"), variant="primary", elem_id="load", scale=0, min_width=110)
        unload = gr.Button(tr("Unload"), elem_id="unload", scale=0, min_width=110)
    plan = gr.HTML("", elem_id="plan", js_on_load=None, apply_default_css=False)
    sheet = gr.HTML("", elem_id="sheet", js_on_load=BIND, apply_default_css=False)
    idle = gr.Number(
        None,
        label=tr("Unload after minutes without a message"),
        info=tr("Empty: never. The next message loads the pair again."),
        precision=0,
        minimum=1,
        maximum=LONGEST_IDLE,
        elem_id="idle",
    )
    return Models(target, draft, load, unload, idle, plan, sheet)


class ModelsWiring:
    """Handlers of the models tab. `pill` shows the page's status label for a session and mode."""

    def __init__(
        self, controller: Controller, parts: Models, pill: Any, label: Callable[[Session, str], str]
    ) -> None:
        self.controller = controller
        self.parts = parts
        self.pill = pill
        self.label = label

    def wire(self, mode: Any) -> None:
        """The button loads; a menu alone changes nothing, for a load takes a while."""
        parts = self.parts
        quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
        chosen = [parts.target, parts.draft, mode]
        parts.load.click(self.load, chosen, self.outputs(), concurrency_limit=None, **quiet)
        parts.unload.click(self.unload, mode, self.outputs(), concurrency_limit=None, **quiet)
        pick = [parts.target, parts.draft]
        gr.on([part.input for part in pick], self.plan, pick, parts.plan, **quiet)
        parts.sheet.take(self.take, mode, self.outputs(), concurrency_limit=None, **quiet)
        parts.idle.change(self.keep_idle, parts.idle, parts.sheet, **quiet)

    def outputs(self) -> list[Any]:
        """What a load may change."""
        parts = self.parts
        changed = [parts.plan, parts.sheet, parts.target, parts.draft, parts.load, parts.unload]
        return [self.pill, *changed]

    def plan(self, target: str, draft: str, request: gr.Request) -> str:
        """What the pair in the menus would take, before it is loaded."""
        session = session_of(self.controller, request)
        pair = self.controller.status().pair
        target = target or (pair.target.value if pair else "")
        if not target:
            return ""
        try:
            need = self.controller.model_shelf.plan(session, target, draft)
        except SpecdecError as error:
            return said(error)
        if need:
            return bar(need, tr("Memory of the pair in the menus, estimated"))
        unknown = tr("How much memory it takes is known once its files are here.")
        return f'<p class="quiet">{unknown}</p>'

    async def take(
        self, event: gr.EventData, mode: str, request: gr.Request
    ) -> AsyncIterator[Update]:
        """Use a draft with the loaded target; one that is not here is downloaded first."""
        session, draft = session_of(self.controller, request), str(event.id)
        shelf, pair = self.controller.model_shelf, self.controller.status().pair
        try:
            owner_only(session)
            if pair is None:
                raise SettingError(tr("No target is loaded."), tr("Load one first."))
            target = pair.target.value
            option = next((o for o in pair.drafts if o.id == draft), None)
            if option is None or option.on_disk or draft in WITHOUT_FILES:
                self.controller.load(session, target, draft)
            else:
                shelf.download(
                    session, draft, lambda: void(self.controller.load(session, target, draft))
                )
        except SpecdecError as error:
            yield {self.parts.sheet: said(error) + self.sheet(session)}
            return
        while (task := shelf.queue.tasks().get(draft)) is not None and task.going:
            going = going_html(task, option.name if option else draft)
            yield {self.parts.plan: going}
            await asyncio.sleep(EVERY_S)
        failed = task.error if task is not None and option and not option.on_disk else None
        yield {self.parts.plan: bubbles.error(failed) if failed else ""}
        async for update in self.watch(session, mode):
            yield update

    async def unload(self, mode: str, request: gr.Request) -> AsyncIterator[Update]:
        """Give the memory back, after the reply that is being made."""
        session = session_of(self.controller, request)
        try:
            job = self.controller.unloading.unload(session)
        except SpecdecError as error:
            yield {self.parts.sheet: said(error)}
            return
        while not job.done.is_set():
            yield {self.pill: self.label(session, mode), self.parts.unload: gr.update(value="...")}
            await asyncio.sleep(EVERY_S)
        yield {**self.update(session, mode), self.parts.unload: gr.update(value=tr("Unload"))}

    def keep_idle(self, minutes: float | None, request: gr.Request) -> Update:
        """Remember when to unload unasked."""
        session = session_of(self.controller, request)
        try:
            self.controller.unloading.keep(session, None if minutes is None else int(minutes))
        except SpecdecError as error:
            return {self.parts.sheet: said(error)}
        return {self.parts.sheet: gr.skip()}

    async def load(
        self, target: str, draft: str, mode: str, request: gr.Request
    ) -> AsyncIterator[Update]:
        """Load the chosen pair, with progress; a failure says why and what stays."""
        session = session_of(self.controller, request)
        try:
            self.controller.load(session, target or None, draft or None)
        except SpecdecError as error:
            yield {self.parts.sheet: said(error)}
            return
        async for update in self.watch(session, mode):
            yield update

    async def watch(self, session: Session, mode: str) -> AsyncIterator[Update]:
        """Status label and reasons while a load runs or waits, and once at its end."""
        last: tuple[str, str] | None = None
        while True:
            job = self.controller.loading()
            busy = (
                job is not None and not job.done.is_set()
            ) or self.controller.phase() is not None
            now = (self.label(session, mode), self.sheet(session))
            if now != last:
                yield {self.pill: now[0], self.parts.sheet: now[1]}
                last = now
            if not busy:
                yield self.update(session, mode)
                return
            await asyncio.sleep(EVERY_S)

    def sheet(self, session: Session) -> str:
        if session.role != "owner":
            return ""
        controller = self.controller
        status = controller.status()
        known = controller.draft_records(session) if status.pair else {}
        return pair_sheet.sheet(status, controller.phase(), controller.load_error(), known)

    def update(self, session: Session, mode: str) -> Update:
        """Everything the tab shows; nothing for a guest."""
        update: Update = {self.pill: self.label(session, mode)}
        if session.role != "owner":
            return update
        status = self.controller.status()
        models = self.controller.models(session)
        target = status.pair.target.value if status.pair else ""
        draft = status.pair.draft.value if status.pair else ""
        targets = pair_sheet.targets(models)
        drafts = pair_sheet.drafts(models, status.pair)
        return {
            **update,
            self.parts.sheet: self.sheet(session),
            self.parts.unload: gr.update(interactive=status.state == "ready"),
            self.parts.target: gr.update(choices=targets, value=_known(target, targets)),
            self.parts.draft: gr.update(choices=drafts, value=_known(draft, drafts)),
        }


def void(_: object) -> None:
    """A call whose result nobody wants."""


def _known(value: str, entries: list[tuple[str, str]]) -> str:
    return value if any(value == id for _, id in entries) else pair_sheet.CHOSEN
