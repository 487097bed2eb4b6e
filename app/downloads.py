"""`GET /chats/ID.md`, `/chats/ID.json`, `POST /chats`: conversations as files. Wiring only.

The gate lets only the owner near (`app.security`).
"""

from __future__ import annotations

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from app.controller import Controller
from app.export import TYPES, Form, export, file_name
from app.measured_files import make_measured
from specdec.errors import SpecdecError


def make_downloads(controller: Controller) -> APIRouter:
    """The routes, what was measured among them."""
    router = APIRouter()
    router.include_router(make_measured(controller.measured))

    def get(conversation: str, form: Form) -> Response:
        found = controller.stored(conversation)
        if found is None:
            return PlainTextResponse("This conversation is gone.", 404)
        headers = {"Content-Disposition": f'attachment; filename="{file_name(found[0], form)}"'}
        return Response(export(*found, form), 200, headers, f"{TYPES[form]}; charset=utf-8")

    @router.get("/chats/{conversation}.md")
    def get_markdown(conversation: str) -> Response:
        return get(conversation, "md")

    @router.get("/chats/{conversation}.json")
    def get_json(conversation: str) -> Response:
        return get(conversation, "json")

    @router.post("/chats")
    async def post(request: Request) -> Response:
        try:
            made = await run_in_threadpool(controller.restore, await request.body())
        except SpecdecError as error:
            return PlainTextResponse(str(error), 400)
        return JSONResponse({"id": made.id}, 201)

    return router
