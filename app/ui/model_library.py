"""All models: the list, the download that runs, and what may be done with each. Wiring only.

The owner's only, as the shelf sees to; a guest's call is answered with that refusal.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from html import escape
from typing import Any

import gradio as gr

from app import shelf_view, view
from app.chats import owner_only
from app.controller import Controller
from app.model_row import narrowed
from app.session import Session
from app.ui.seen import lasting
from app.ui.visit import said, session_of
from app.words import tr
from specdec.errors import SpecdecError

Update = dict[Any, Any]
Watch = Callable[[Session, str], AsyncIterator[Update]]
Act = Callable[[Session, str], str | None]
EVERY_S = 0.4

BIND = """
window.specdec.bind(element, (act, data) => {
  const sure = (text) => confirm(window.specdec.tr(text, data.title));
  if (act === 'remove' && !sure('Delete {name} from the disk?')) return;
  if (act === 'cancel' && !sure('Delete what was fetched of {name}?')) return;
  const acts = ['download', 'cancel', 'verify', 'mend', 'remove', 'forget', 'use'];
  if (acts.includes(act)) trigger(act, data);
});
"""


@dataclass(frozen=True, slots=True)
class Library:
    """Its components. `going` shows only while something runs."""

    going: Any
    progress: Any
    pause: Any
    cancel: Any
    notice: Any
    search: Any
    shelf: Any


def layout() -> Library:
    """What runs, with its two buttons; the search; the list."""
    with gr.Row(visible=False, elem_id="going") as going:
        progress = gr.HTML("", elem_id="fetching", js_on_load=None, apply_default_css=False)
        pause = gr.Button(tr("Pause"), elem_id="pause", scale=0, min_width=90)
        cancel = gr.Button(tr("Cancel and delete"), elem_id="cancel-fetch", scale=0, min_width=170)
    notice = gr.HTML("", elem_id="shelf-notice", js_on_load=None, apply_default_css=False)
    search = gr.Textbox(
        "",
        label=tr("Search the models"),
        placeholder=tr("Name, family or size"),
        elem_id="find",
        max_lines=1,
    )
    shelf = gr.HTML("", elem_id="shelf", js_on_load=BIND, apply_default_css=False)
    return Library(going, progress, pause, cancel, notice, search, shelf)


class LibraryWiring:
    """Handlers. `loading` watches a load, as the other half of the tab does."""

    def __init__(self, controller: Controller, parts: Library, loading: Watch) -> None:
        self.controller = controller
        self.models = controller.model_shelf
        self.parts = parts
        self.loading = loading
        self._watching: set[str] = set()  # session keys

    def wire(self, mode: Any, outputs: list[Any]) -> None:
        """`outputs` are those of the loading half, which a model that came may change."""
        parts = self.parts
        mine = [getattr(parts, name) for name in Library.__dataclass_fields__ if name != "search"]
        quiet: dict[str, Any] = {
            "inputs": [parts.search, mode],
            "outputs": [*mine, *outputs],
            "show_progress": "hidden",
            "api_visibility": "private",
            "concurrency_limit": None,
            "trigger_mode": "multiple",
        }
        shelf = self.models
        acts: dict[str, Act] = {
            "download": lambda session, model: shelf.download(session, model),
            "cancel": self._dropped,
            "verify": lambda session, model: shelf.check(session, model),
            "mend": lambda session, model: shelf.mend(session, model),
            "remove": self._removed,
            "forget": lambda session, model: shelf.forget(session, model),
            "use": self._used,
        }
        for name, act in acts.items():
            getattr(parts.shelf, name)(self._handler(name, act), **quiet)
        parts.pause.click(self.pause, **quiet)
        parts.cancel.click(self.cancel, **quiet)
        parts.search.input(
            self.find,
            parts.search,
            parts.shelf,
            show_progress="hidden",
            api_visibility="private",
            trigger_mode="always_last",
        )

    def find(self, query: str, request: gr.Request) -> Update:
        """Narrow the list while somebody types."""
        session = session_of(self.controller, request)
        try:
            return {self.parts.shelf: self._list(session, query)}
        except SpecdecError as error:
            return {self.parts.shelf: said(error)}

    @lasting
    async def pause(self, query: str, mode: str, request: gr.Request) -> AsyncIterator[Update]:
        """Stop what runs; what came is kept."""

        def act(session: Session) -> None:
            owner_only(session)
            if task := self.models.queue.current():
                self.models.pause(session, task.model)

        async for update in self._do(request, query, mode, act):
            yield update

    @lasting
    async def cancel(self, query: str, mode: str, request: gr.Request) -> AsyncIterator[Update]:
        """Stop what runs; what came of a download goes."""

        def act(session: Session) -> str:
            owner_only(session)
            task = self.models.queue.current()
            return self._dropped(session, task.model) if task else ""

        async for update in self._do(request, query, mode, act):
            yield update

    async def watch(self, session: Session, query: str, mode: str) -> AsyncIterator[Update]:
        """The tab as downloads go on, until none does, and the load that may follow one.

        One watcher a tab: a second one shows how things stand and leaves.
        """
        if session.role != "owner":
            return
        if session.key in self._watching:
            async for update in self._settled(session, query):
                yield update
            return
        self._watching.add(session.key)
        try:
            async for update in self._follow(session, query):
                yield update
        finally:
            self._watching.discard(session.key)
        async for update in self.loading(session, mode):
            yield update
        async for update in self._settled(session, query):
            yield update

    async def _settled(self, session: Session, query: str) -> AsyncIterator[Update]:
        """How things stand, and again where they changed meanwhile: another handler of the tab may
        have shown that before this one was sent.
        """
        shown: Any = None
        while (now := self._state()) != shown:
            shown = now
            yield await asyncio.to_thread(self._shown, session, query)

    def _state(self) -> Any:
        tasks = self.models.queue.tasks()
        states = {model: (task.work, task.state) for model, task in tasks.items()}
        return states, self.controller.status().pair

    async def _follow(self, session: Session, query: str) -> AsyncIterator[Update]:
        states: Any = None
        line = ""
        while True:
            tasks = self.models.queue.tasks()
            now = self._state()
            if now != states:
                states = now
                yield await asyncio.to_thread(self._shown, session, query)
            if (html := self._progress()) != line:
                line = html
                yield {self.parts.progress: html}
            if not any(task.going for task in tasks.values()):
                return
            await asyncio.sleep(EVERY_S)

    def _handler(self, name: str, act: Act) -> Callable[..., AsyncIterator[Update]]:
        """What a button of the list does, on the model it stands beside."""

        @lasting
        async def handler(
            event: gr.EventData, query: str, mode: str, request: gr.Request
        ) -> AsyncIterator[Update]:
            model = str(event.id)
            async for update in self._do(request, query, mode, lambda s: act(s, model)):
                yield update

        handler.__qualname__ = f"{type(self).__qualname__}.{name}"
        return handler

    async def _do(
        self, request: gr.Request, query: str, mode: str, act: Callable[[Session], str | None]
    ) -> AsyncIterator[Update]:
        session = session_of(self.controller, request)
        try:
            told = await asyncio.to_thread(act, session)
        except SpecdecError as error:
            yield {self.parts.notice: said(error)}
            return
        yield {self.parts.notice: f'<p class="quiet" role="status">{escape(told or "")}</p>'}
        async for update in self.watch(session, query, mode):
            yield update

    def _used(self, session: Session, model: str) -> None:
        self.controller.load(session, model, None)

    def _removed(self, session: Session, model: str) -> str:
        return tr("{size} are free again.", size=view.size(self.models.delete(session, model)))

    def _dropped(self, session: Session, model: str) -> str:
        return tr("{size} of it were deleted.", size=view.size(self.models.cancel(session, model)))

    def _shown(self, session: Session, query: str) -> Update:
        return {
            self.parts.going: gr.update(visible=self.models.queue.current() is not None),
            self.parts.shelf: self._list(session, query),
        }

    def _list(self, session: Session, query: str) -> str:
        return shelf_view.list_html(narrowed(self.models.rows(session), query))

    def _progress(self) -> str:
        task = self.models.queue.current()
        if task is None:
            return ""
        return shelf_view.going_html(task, self.models.entry(task.model).name)
