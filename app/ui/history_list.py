"""The list of earlier conversations at the left edge; the owner's only. Wiring and its HTML."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import gradio as gr

from app.controller import Controller
from app.records import Found
from app.session import Session
from app.ui import theme
from app.ui.visit import said, session_of
from app.words import tr
from specdec.errors import SpecdecError

Update = dict[Any, Any]

BIND = """
window.specdec.bind(element, (act, data) => {
  if (act === 'open') trigger('open', data);
  if (act === 'pin') trigger('pin', data);
  if (act === 'rename') {
    const title = prompt(window.specdec.tr('New title'), data.title);
    if (title) trigger('rename', {id: data.id, title: title});
  }
  if (act === 'delete') trigger('remove', data);
});
"""


@dataclass(frozen=True, slots=True)
class HistoryList:
    """Its components; `side` is empty until the visitor is known to be the owner."""

    side: Any
    new: Any
    search: Any
    chats: Any


def layout() -> HistoryList:
    """Logo, the button for a new conversation, the search, the list."""
    with gr.Sidebar(open=False, width=272, elem_id="history") as side:
        gr.HTML(
            f'<div class="brand">{theme.logo()}<span>specdec</span></div>',
            js_on_load=None,
            apply_default_css=False,
        )
        new = gr.Button(tr("New conversation"), elem_id="new", variant="secondary")
        search = gr.Textbox(
            label=tr("Search"),
            show_label=False,
            placeholder=tr("Search"),
            lines=1,
            max_lines=1,
            container=False,
            elem_id="search",
        )
        chats = gr.HTML("", elem_id="chats", js_on_load=BIND, apply_default_css=False)
        gr.HTML(import_html(), js_on_load=None, apply_default_css=False)
    return HistoryList(side, new, search, chats)


def import_html() -> str:
    """The chooser of a saved conversation; page.js posts it."""
    return (
        f'<label class="import">{tr("Import a saved conversation")}'
        '<input type="file" accept=".json,application/json" data-import></label>'
    )


def list_html(found: Sequence[Found], current: str, searched: bool = False) -> str:
    """Titles in their order, with the place that a search found; the one shown is marked."""
    if not found:
        nothing = tr("No conversation holds these words.")
        none = (
            nothing if searched else tr("Your conversations are kept here, on this computer only.")
        )
        return f'<p class="quiet">{escape(none)}</p>'
    items = "".join(_item(one, current) for one in found)
    return f'<nav aria-label="{tr("Earlier conversations")}"><ul>{items}</ul></nav>'


def _item(found: Found, current: str) -> str:
    chat = found.conversation
    title, here = escape(chat.title or tr("Untitled")), chat.id == current
    kinds = " ".join(["current"] * here + ["pinned"] * chat.pinned)
    where = tr("in another version:") + " " if found.hidden else ""
    place = f"<small>{where}{escape(found.excerpt)}</small>" if found.excerpt else ""
    pin = tr("Unpin") if chat.pinned else tr("Pin")
    pins = tr("Unpin {title}", title=title) if chat.pinned else tr("Pin {title}", title=title)
    link = f"./chats/{escape(chat.id)}"
    return (
        f'<li class="{kinds}" data-id="{escape(chat.id)}" data-title="{title}">'
        f'<button type="button" data-act="open" class="open"'
        f"{' aria-current=page' if here else ''}>{title}{place}</button>"
        f'<button type="button" data-act="pin" aria-label="{pins}" title="{pin}">'
        f"{'★' if chat.pinned else '☆'}</button>"
        f'<button type="button" data-act="rename" aria-label="{tr("Rename {title}", title=title)}"'
        f' title="{tr("Rename")}">✎</button>'
        f'<a href="{link}.md" download aria-label="{tr("Save {title} as Markdown", title=title)}"'
        f' title="{tr("Save as Markdown")}">⇩</a>'
        f'<a href="{link}.json" download aria-label="{tr("Save {title} as JSON", title=title)}"'
        f' title="{tr("Save as JSON, with token ids and figures")}">{{}}</a>'
        f'<button type="button" data-act="delete" aria-label="{tr("Delete {title}", title=title)}"'
        f' title="{tr("Delete")}">✕</button></li>'
    )


class HistoryWiring:
    """Handlers of the list. `shown` is what the chat tab shows of a session, in a mode.

    The system prompt belongs to the conversation and comes with it.
    """

    def __init__(
        self,
        controller: Controller,
        parts: HistoryList,
        chat: Any,
        system: Any,
        shown: Callable[..., Update],
    ) -> None:
        self.controller = controller
        self.parts = parts
        self.chat = chat
        self.system = system
        self.shown = shown

    def update(self, session: Session) -> Update:
        """The list as this session may see it, narrowed to what it searches for."""
        if session.role != "owner":
            return {self.parts.chats: ""}
        found = self.controller.chats.found(session)
        searched = bool(session.search.strip())
        return {self.parts.chats: list_html(found, session.conversation, searched)}

    def refresh(self, session: Session) -> Update:
        """The list while a reply begins or ends; a search is not made anew for that."""
        return {self.parts.chats: gr.skip()} if session.search.strip() else self.update(session)

    def wire(self, outputs: list[Any], follow: Callable[..., Any]) -> None:
        """`follow` is what is done after a conversation is opened: watch its reply, if any."""
        quiet: dict[str, Any] = {
            "outputs": [*outputs, self.system],
            "show_progress": "hidden",
            "api_visibility": "private",
        }
        mode = [self.chat.mode]
        opened = self.parts.chats.open(self.open, mode, **quiet)
        opened.success(follow, mode, concurrency_limit=None, **quiet)
        self.parts.new.click(self.new, mode, **quiet)
        self.parts.chats.rename(self.rename, None, **quiet)
        self.parts.chats.pin(self.pin, None, **quiet)
        self.parts.search.change(
            self.search, self.parts.search, trigger_mode="always_last", **quiet
        )

    def open(self, event: gr.EventData, mode: str, request: gr.Request) -> Update:
        """What was searched for is shown, in whichever version it stands."""
        conversation = str(event.id)

        def act(session: Session) -> None:
            found = self.controller.chats.found(session) if session.search.strip() else ()
            hit = next((f.hidden for f in found if f.conversation.id == conversation), 0)
            self.controller.chats.open(session, conversation)
            if hit:
                self.controller.desk.show(session, hit)

        return self.then(request, mode, act)

    def new(self, mode: str, request: gr.Request) -> Update:
        return self.then(request, mode, self.controller.new)

    def rename(self, event: gr.EventData, request: gr.Request) -> Update:
        session = session_of(self.controller, request)
        try:
            self.controller.chats.rename(session, str(event.id), str(event.title))
        except SpecdecError as error:
            return {self.chat.notice: said(error)}
        return self.update(session)

    def pin(self, event: gr.EventData, request: gr.Request) -> Update:
        """Keep it at the top, or no longer."""
        session = session_of(self.controller, request)
        try:
            self.controller.chats.pin(session, str(event.id))
        except SpecdecError as error:
            return {self.chat.notice: said(error)}
        return self.update(session)

    def search(self, query: str, request: gr.Request) -> Update:
        """Narrow the list while somebody types."""
        session = session_of(self.controller, request)
        session.search = query
        return self.update(session)

    def then(self, request: gr.Request, mode: str, act: Callable[[Session], object]) -> Update:
        """Act, and show what has become of list and chat."""
        session = session_of(self.controller, request)
        try:
            act(session)
        except SpecdecError as error:
            return {self.chat.notice: said(error)}
        system = self.controller.thread(session).system
        return {
            self.chat.live: "",
            self.chat.edited: 0,
            self.system: system if session.conversation else gr.skip(),
            **self.shown(session, mode),
            **self.update(session),
        }
