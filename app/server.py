"""The web server: gradio's page and our own routes behind the gate, on a bound socket.

Knows the page only as a `gr.Blocks`, and the engine only through `health`.
"""

from __future__ import annotations

# ruff: noqa: E402  (gradio has to be imported in its own way, and first)
import asyncio
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.gradio_import import import_gradio

import_gradio()

import gradio as gr
import uvicorn
from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.routing import Mount

from app.access import Access
from app.installable import make_installable
from app.security import ROLE, Gate, username
from specdec.errors import EngineError

QUEUE_SIZE = 32
"""Events that may wait, all visitors together; more are refused."""
CONCURRENCY = 8
MAX_FILE_SIZE = "1mb"

HTTP: dict[str, Any] = {
    "log_level": "warning",
    "proxy_headers": False,
    "server_header": False,
    "ws": "none",
    "timeout_graceful_shutdown": 1,
}
"""How every listener of ours speaks."""

Health = Callable[[], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Site:
    """What is served: the gate before everything, the page, and gradio's own application."""

    gate: Gate
    page: gr.Blocks
    mounted: Any


def make_site(
    page: gr.Blocks,
    access: Access,
    health: Health,
    look: Mapping[str, Any] | None = None,
    routers: Sequence[APIRouter] = (),
) -> Site:
    """The whole ASGI application. `look` is theme, css, head and the like for gradio's mount."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/health")
    def get_health(request: Request) -> Mapping[str, Any]:
        found = health()
        return found if request.scope[ROLE] == "owner" else {"state": found["state"]}

    for router in (make_installable(), *routers):
        app.include_router(router)
    page.queue(max_size=QUEUE_SIZE, default_concurrency_limit=CONCURRENCY, api_open=False)
    gr.mount_gradio_app(
        app,
        page,
        path="/",
        auth_dependency=username,
        footer_links=[],
        run_history=False,
        enable_monitoring=False,
        mcp_server=False,
        ssr_mode=False,
        pwa=False,
        show_error=False,
        max_file_size=MAX_FILE_SIZE,
        allowed_paths=[],
        **(look or {}),
    )
    # only launch() sets this, and gradio 6.31 checks no path in a payload without it: a mounted
    # page would copy any file of this machine into its public cache (tests: a forged file)
    page.has_launched = True
    (mounted,) = (route.app for route in app.routes if isinstance(route, Mount))
    return Site(Gate(app, access), page, mounted)


class _Uvicorn(uvicorn.Server):
    """Open tabs hold streams that would outlast the server: they are told first."""

    site: Site
    loop: asyncio.AbstractEventLoop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.site.page._queue.close()
        self.site.page.is_running = False
        self.site.mounted.stop_event.set()
        await super().shutdown(sockets)


class Server:
    """Serves in a thread until stopped."""

    def __init__(self, site: Site, listener: socket.socket) -> None:
        self.site = site
        self._listener = listener
        self._server = _Uvicorn(uvicorn.Config(site.gate, lifespan="on", **HTTP))
        self._server.site = site
        self._thread = threading.Thread(
            target=self._server.run, args=([listener],), name="server", daemon=True
        )

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Everything of this application runs in it, once started."""
        return self._server.loop

    def start(self, timeout: float = 30.0) -> None:
        """Returns when requests are answered. Raises EngineError when that does not happen."""
        self._thread.start()
        end = time.monotonic() + timeout
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > end:
                raise EngineError("The web server did not start.", "See the lines above.")
            time.sleep(0.01)

    def stop(self, timeout: float = 2.5) -> None:
        """Ends open streams and answers too; safe to call twice."""
        self._server.should_exit = True
        self._thread.join(timeout)
        self._server.force_exit = True
        self._listener.close()
