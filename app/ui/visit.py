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
from specdec.errors import SpecdecError


def session_of(controller: Controller, request: gr.Request) -> Session:
    """The tab's session; a guest when in doubt. Raises SettingError for another login's tab."""
    return controller.session(request.session_hash or "", role_of(request))


def said(error: SpecdecError) -> str:
    """An error a handler met, as the notice line."""
    return f'<p class="error" role="alert"><b>{escape(error.message)}</b> {escape(error.hint)}</p>'


def pill_html(controller: Controller, session: Session, mode: str) -> str:
    """The status label as this tab sees it."""
    return pill(
        pill_label(
            controller.status(),
            controller.phase(),
            "standard" if mode == "standard" else "speculative",
            last_facts(controller, session),
        )
    )


def last_facts(controller: Controller, session: Session) -> Facts | None:
    """How the last reply shown was made."""
    rows = [row for row in controller.thread(session).rows if row.role == "assistant"]
    return facts_from(rows[-1].metrics, rows[-1].request) if rows else None
