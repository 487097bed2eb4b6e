"""The product's own page over the fake engine, asked over HTTP as a browser would. For tests."""

from __future__ import annotations

import atexit
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import gradio as gr
import httpx

from app import ports
from app.access import Access, Login
from app.server import Server, make_site
from app.ui import page
from tests.app.desk_kit import Kit

LOGINS = (Login("me", "secret-pass", "owner"), Login("you", "visitor-pass", "guest"))


class Visitor:
    """A logged-in client with one tab."""

    def __init__(self, client: httpx.Client, page: gr.Blocks, tab: str = "") -> None:
        self.client = client
        self.page = page
        self.tab = tab or secrets.token_hex(5)

    def call(self, name: str, data: Sequence[Any], event: Any = None) -> list[dict[str, Any]]:
        """Every message of one call of the handler `Class.function`, the last one completed."""
        ask = {
            "data": list(data),
            "fn_index": self._number(name),
            "session_hash": self.tab,
            "event_data": event,
        }
        joined = self.client.post("/gradio_api/queue/join", json=ask)
        assert joined.status_code == 200, joined.text
        found: list[dict[str, Any]] = []
        where = "/gradio_api/queue/data"
        with self.client.stream("GET", where, params={"session_hash": self.tab}) as stream:
            for line in stream.iter_lines():
                if not line.startswith("data:"):
                    continue
                found.append(json.loads(line[5:]))
                if found[-1]["msg"] in ("process_completed", "close_stream"):
                    return found
        raise AssertionError(f"the stream ended early: {found}")

    def said(self, messages: list[dict[str, Any]]) -> str:
        """Everything that was shown, as one text."""
        return json.dumps([m.get("output") for m in messages])

    def emptied(self, name: str, message: dict[str, Any]) -> list[gr.Block]:
        """The outputs of a handler that such a message would leave without a value."""
        outputs, data = self.page.fns[self._number(name)].outputs, message["output"]["data"]
        pairs = zip(outputs, data, strict=True)
        return [part for part, value in pairs if value is None and not isinstance(part, gr.State)]

    def _number(self, name: str) -> int:
        number, *_ = (i for i, fn in self.page.fns.items() if _name(fn.fn) == name)
        return int(number)


def _name(fn: Any) -> str:
    return str(getattr(fn, "__qualname__", ""))


@contextmanager
def real_page(kit: Kit) -> Iterator[tuple[Visitor, Visitor]]:
    """The owner and a guest at a shared page."""
    if "GRADIO_TEMP_DIR" not in os.environ:
        os.environ["GRADIO_TEMP_DIR"] = folder = tempfile.mkdtemp(prefix="specdec-test-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    listener = ports.listen("127.0.0.1", 0)
    built = page.build(kit.controller)
    server = Server(make_site(built, Access(LOGINS), lambda: {"state": "x"}), listener)
    server.start()
    url = ports.address(listener)
    clients = []
    try:
        for login in LOGINS:
            form = {"username": login.user, "password": login.password}
            answer = httpx.post(f"{url}/login", data=form, timeout=20)
            clients.append(httpx.Client(base_url=url, timeout=20, cookies=answer.cookies))
        yield Visitor(clients[0], built), Visitor(clients[1], built)
    finally:
        for client in clients:
            client.close()
        kit.close()
        server.stop()
