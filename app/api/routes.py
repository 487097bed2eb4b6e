"""The routes of `/v1`. Wiring only; the gate has let the request in (`app.security`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any, TypeVar

from fastapi import APIRouter
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from app.api.answers import Answer, Kind, event
from app.api.asked import ChatAsked, TextAsked
from app.api.refusals import BadFieldError, error_object, refuse, status_of
from app.controller import Controller
from app.errands import Errand
from app.live import Live
from app.security import VISITOR
from specdec.contract import ErrorInfo
from specdec.errors import SpecdecError, UnknownModelError

A = TypeVar("A", ChatAsked, TextAsked)

EVERY_S = 0.2
"""How often it is asked whether the caller still waits."""

GONE = ErrorInfo("EngineError", "The reply was stopped.", "Send the request again.")


def make_api(controller: Controller) -> APIRouter:
    """`/v1/models`, `/v1/chat/completions`, `/v1/completions`."""
    router = APIRouter(prefix="/v1")
    api = _Api(controller)
    router.add_api_route("/models", api.models, methods=["GET"], response_model=None)
    router.add_api_route("/models/{name:path}", api.model, methods=["GET"], response_model=None)
    router.add_api_route("/chat/completions", api.chat, methods=["POST"], response_model=None)
    router.add_api_route("/completions", api.text, methods=["POST"], response_model=None)
    return router


class _Api:
    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._errands = controller.errands
        self._began = int(time.time())

    def models(self) -> dict[str, Any]:
        """The target that is loaded, or that a message loads again: the one a request may name."""
        pair = self._controller.status().pair or self._controller.unloading.pair
        rows = [self._row(pair.target.value, pair.draft.value)] if pair else []
        return {"object": "list", "data": rows}

    def model(self, name: str) -> Response:
        """One of them."""
        for row in self.models()["data"]:
            if row["id"] == name:
                return JSONResponse(row)
        error = UnknownModelError(f"The model {name!r} is not loaded.", "See /v1/models.")
        return refuse(ErrorInfo.of(error))

    async def chat(self, request: Request) -> Response:
        return await self._answer(request, ChatAsked, "chat")

    async def text(self, request: Request) -> Response:
        return await self._answer(request, TextAsked, "text")

    def _row(self, target: str, draft: str) -> dict[str, Any]:
        row = {"id": target, "object": "model", "created": self._began, "owned_by": "specdec"}
        return {**row, "draft": draft}

    async def _answer(self, request: Request, form: type[A], kind: Kind) -> Response:
        """Errors that come before the first token have a status of their own, also in a stream."""
        try:
            asked = form.model_validate_json(await request.body())
            errand = self._errands.put(asked.model, asked.request(), request.scope[VISITOR])
        except ValidationError as error:
            return refuse(BadFieldError.of(error))
        except BadFieldError as error:
            return refuse(error)
        except SpecdecError as error:
            return refuse(ErrorInfo.of(error))
        try:
            live = await self._wait(request, errand, to_the_end=not asked.stream)
        except BaseException:
            self._errands.end(errand)
            raise
        if live.error is not None or live.reason == "cancelled":
            return refuse(live.error or GONE)
        answer = Answer(kind, asked.model)
        if not asked.stream:
            return JSONResponse(answer.whole(live))
        lines = self._lines(errand, answer, asked.with_usage)
        return StreamingResponse(lines, media_type="text/event-stream")

    async def _wait(self, request: Request, errand: Errand, to_the_end: bool) -> Live:
        """The reply when it is done, or when it has begun; it ends when the caller hangs up."""

        async def hang_up() -> None:
            while not await request.is_disconnected():
                await asyncio.sleep(EVERY_S)
            self._errands.end(errand)

        watching = asyncio.create_task(hang_up())
        try:
            async for live in self._errands.watch(errand):
                if live.stage == "done" or (live.started is not None and not to_the_end):
                    return live
            return errand.job.snapshot
        finally:
            watching.cancel()

    async def _lines(self, errand: Errand, answer: Answer, with_usage: bool) -> AsyncIterator[str]:
        """A stream's events. Closed when the caller hangs up: the reply ends then."""
        sent = 0
        try:
            if answer.kind == "chat":
                yield answer.opening()
            async for live in self._errands.watch(errand):
                if len(live.text) > sent:
                    yield answer.piece(live.text[sent:])
                    sent = len(live.text)
            live = errand.job.snapshot
            if live.error is not None or live.reason == "cancelled":
                error = live.error or GONE
                yield event(error_object(str(error), status_of(error)))
                return
            yield answer.ending(live, with_usage)
        finally:
            self._errands.end(errand)
