"""`GET /measured/ID.json`, `.png`, `.csv`: what was measured, as files. Wiring only.

The gate lets only the owner near (`app.security`).
"""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import PlainTextResponse, Response

from app.measured import TYPES, Form, Shelf


def make_measured(shelf: Shelf) -> APIRouter:
    """The route; a file is drawn in a thread of its own."""
    router = APIRouter()

    @router.get("/measured/{id}.{form}")
    def get_measured(id: str, form: Form) -> Response:
        sheet = shelf.get(id)
        if sheet is None or form not in sheet.files:
            return PlainTextResponse("This is no longer kept. Run it again to save it.", 404)
        headers = {"Content-Disposition": f'attachment; filename="{sheet.name}.{form}"'}
        return Response(sheet.files[form](), 200, headers, TYPES[form])

    return router
