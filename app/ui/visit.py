"""From a gradio request to a session. The only place where a handler learns who asks."""

from __future__ import annotations

from html import escape

import gradio as gr

from app.bubbles import pill
from app.controller import Controller
from app.live import Facts, facts_from
from app.security import role_of
from app.session import Session
from app.view import pill as pill_label
from app.words import tr
from specdec.contract import Mode
from specdec.errors import SpecdecError


def session_of(controller: Controller, request: gr.Request) -> Session:
    """The tab's session; a guest when in doubt. Raises SettingError for another login's tab."""
    who = str(getattr(request, "username", None) or "")
    return controller.session(request.session_hash or "", role_of(request), who)


def said(error: SpecdecError) -> str:
    """An error a handler met, as the notice line."""
    message, hint = escape(tr(error.message)), escape(tr(error.hint))
    return f'<p class="error" role="alert"><b>{message}</b> {hint}</p>'


def last_facts(controller: Controller, session: Session) -> Facts | None:
    """How the last reply shown was made."""
    rows = [row for row in controller.thread(session).rows if row.role == "assistant"]
    return facts_from(rows[-1].metrics, rows[-1].request) if rows else None


def pill_html(controller: Controller, mode: str, last: Facts | None) -> str:
    """The status label, where `last` is how the last reply was made."""
    decoding: Mode = "standard" if mode == "standard" else "speculative"
    return pill(pill_label(controller.status(), controller.phase(), decoding, last))
