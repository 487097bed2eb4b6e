"""The button that asks the hub, and what it found. Wiring and its HTML."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import gradio as gr

from app.controller import Controller
from app.hub_search import Found
from app.ui.visit import said, session_of
from app.words import tr
from specdec.errors import SpecdecError
from specdec.hub_errors import page_of

Update = dict[Any, Any]
BIND = """
window.specdec.bind(element, (act, data) => { if (act === 'enlist') trigger('enlist', data); });
"""


@dataclass(frozen=True, slots=True)
class Finder:
    """Its components."""

    ask: Any
    found: Any


def layout() -> Finder:
    """One button, and room for what comes."""
    ask = gr.Button(tr("Search the hub"), elem_id="ask-hub", scale=0, min_width=140)
    found = gr.HTML("", elem_id="hub-found", js_on_load=BIND, apply_default_css=False)
    return Finder(ask, found)


def found_html(found: Sequence[Found]) -> str:
    """Repositories, with what is against those that cannot be had."""
    if not found:
        return f'<p class="quiet" role="status">{tr("The hub has no model with these words.")}</p>'
    items = "".join(_item(one) for one in found)
    return (
        f'<div class="shelf"><section><h3>{tr("On the hub ({n})", n=len(found))}</h3>'
        f"<ul>{items}</ul></section></div>"
    )


def _item(one: Found) -> str:
    repo, page = escape(one.repo), escape(page_of(one.repo))
    words = [tr("revision {name}", name=one.revision[:12])] if one.revision else []
    words += [tr("licence: {name}", name=one.licence)] if one.licence else []
    words += [tr("needs access")] if one.gated else []
    words.append(one.why or tr("can be tried; its files are looked at when they come"))
    button = (
        ""
        if one.why
        else f'<button type="button" data-act="enlist" aria-label="{tr("Add {name}", name=repo)}">'
        f"{tr('Add')}</button>"
    )
    return (
        f'<li data-id="{repo}" data-title="{repo}"><div class="what"><b>'
        f'<a href="{page}" target="_blank" rel="noopener noreferrer">{repo}</a></b>'
        f'<p>{escape(" · ".join(words))}</p></div><div class="do">{button}</div></li>'
    )


class FinderWiring:
    """Handlers; a guest's call is refused by the shelf."""

    def __init__(self, controller: Controller, parts: Finder) -> None:
        self.controller = controller
        self.parts = parts

    def wire(self, query: Any) -> Any:
        """The event after which a new model may be in the list."""
        quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
        self.parts.ask.click(self.ask, query, self.parts.found, **quiet)
        return self.parts.found.enlist(self.enlist, None, self.parts.found, **quiet)

    async def ask(self, query: str, request: gr.Request) -> Any:
        """The only thing on this page that asks the hub without a download."""
        session = session_of(self.controller, request)
        asking = f"<span>{tr('Asking the hub')}</span><progress></progress>"
        yield f'<div class="wait" role="status">{asking}</div>'
        try:
            shelf = self.controller.model_shelf
            yield found_html(await asyncio.to_thread(shelf.ask_hub, session, query))
        except SpecdecError as error:
            yield said(error)

    def enlist(self, event: gr.EventData, request: gr.Request) -> str:
        session = session_of(self.controller, request)
        try:
            name = self.controller.model_shelf.add_repo(session, str(event.id))
        except SpecdecError as error:
            return said(error)
        text = escape(tr("{name} is on the list, under Download.", name=name))
        return f'<p class="quiet" role="status">{text}</p>'
