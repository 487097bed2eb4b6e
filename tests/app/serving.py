"""Serves a small page behind the real gate, for tests of routes. Not the product's own page."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import gradio as gr
import httpx

from app import ports
from app.access import Access
from app.security import role_of
from app.server import Server, make_site


def walk_routes(routes: Sequence[Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """(method, path) of every route, those of routers and mounted applications included."""
    for route in routes:
        if inner := getattr(route, "original_router", None):
            yield from walk_routes(inner.routes, prefix)
        elif getattr(route, "methods", None):
            for method in route.methods:
                yield method, prefix + route.path
        else:
            yield from walk_routes(route.routes, prefix + route.path)


@dataclass
class Visits:
    """What the page's functions saw."""

    roles: list[str] = field(default_factory=list)
    running: int = 0
    most: int = 0
    go: threading.Event = field(default_factory=threading.Event)


def small_page(visits: Visits) -> gr.Blocks:
    with gr.Blocks() as page:
        box, out = gr.Textbox(), gr.Textbox()
        upload = gr.File()

        def who(text: str, request: gr.Request) -> str:
            visits.roles.append(role_of(request))
            return role_of(request)

        def slow(text: str) -> Iterator[str]:
            visits.running += 1
            visits.most = max(visits.most, visits.running)
            try:
                while not visits.go.wait(0.02):
                    yield text
                yield text
            finally:
                visits.running -= 1

        def show(path: str) -> str:
            return str(path)

        box.submit(who, box, out, api_name="who")
        box.change(slow, box, out, api_name="slow", concurrency_id="engine", concurrency_limit=1)
        upload.upload(show, upload, out, api_name="show")
    return page


@dataclass(frozen=True)
class Served:
    """A running server; `client` keeps cookies."""

    url: str
    client: httpx.Client
    access: Access
    visits: Visits
    server: Server

    def login(self, number: int) -> httpx.Client:
        """A new client with the session of login `number` (0 owner, 1 guest)."""
        login = self.access.logins[number]
        form = {"username": login.user, "password": login.password}
        answer = httpx.post(f"{self.url}/login", data=form, timeout=20)
        assert answer.status_code == 303
        return httpx.Client(base_url=self.url, timeout=20, cookies=answer.cookies)


@contextmanager
def serving(access: Access) -> Iterator[Served]:
    visits = Visits()
    if "GRADIO_TEMP_DIR" not in os.environ:
        os.environ["GRADIO_TEMP_DIR"] = folder = tempfile.mkdtemp(prefix="specdec-test-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    listener = ports.listen("127.0.0.1", 0)
    health = {"state": "ready", "device": "cpu", "target": "secret-model"}
    server = Server(make_site(small_page(visits), access, lambda: health), listener)
    url = ports.address(listener)
    server.start()
    try:
        with httpx.Client(base_url=url, timeout=20) as client:
            yield Served(url, client, access, visits, server)
    finally:
        visits.go.set()
        begun = time.monotonic()
        server.stop()
        assert time.monotonic() - begun < 4
