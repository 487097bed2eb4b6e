"""Every route there is, by the way for guests: without a login, as a guest, as a program."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from app.security import GUEST_PATHS
from tests.app.serving import walk_routes
from tests.app.share_kit import Shared, sharing

Route = tuple[str, str]
FOR_GUESTS = {
    "/", "/config", "/theme.css", "/favicon.ico", "/manifest.json", "/robots.txt", "/health",
    "/static/x", "/assets/x", "/svelte/x", "/pwa_icon", "/pwa_icon/x", "/gradio_api/info",
    "/gradio_api/startup-events", "/gradio_api/queue/join", "/gradio_api/queue/data",
    "/gradio_api/cancel", "/gradio_api/reset", "/gradio_api/component_server",
    "/gradio_api/heartbeat/x", "/gradio_api/call/x", "/gradio_api/call/x/x",
    "/gradio_api/call/v2/x", "/gradio_api/call/v2/x/x",
}  # fmt: skip
"""What a guest's page needs. A path that is not here must be shut; one more is a decision."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    with (
        pytest.MonkeyPatch.context() as patch,
        sharing(tmp_path_factory.mktemp("routes"), patch) as served,
    ):
        served.share()
        yield served


def routes(served: Shared) -> list[Route]:
    """(method, address) of every route of the application, with "x" for what varies."""
    app: Any = served.server.site.gate.app
    found = {(method, re.sub(r"\{[^}]*\}", "x", path)) for method, path in walk_routes(app.routes)}
    paths = {path for _, path in found}
    assert len(paths) > 40, "the walk no longer sees gradio's routes"
    assert {"/v1/completions", "/chats", "/health", "/gradio_api/upload"} <= paths
    return sorted(found)


def test_without_a_login_no_route_answers_whatever_the_method(served: Shared) -> None:
    paths = {path for _, path in routes(served)}
    with httpx.Client(base_url=served.guest_url, timeout=20) as nobody:
        for path in sorted(paths - {"/login", "/logout"}):
            for method in ("GET", "HEAD", "POST", "OPTIONS", "PUT", "DELETE", "PATCH"):
                answer = nobody.request(method, path)
                if method not in ("GET", "HEAD", "POST"):
                    assert answer.status_code == 405, (method, path)
                elif (method, path) == ("GET", "/"):
                    assert (answer.status_code, answer.headers["location"]) == (303, "./login")
                else:
                    assert answer.status_code == 401, (method, path, answer.status_code)
                assert "smollm" not in answer.text


def test_a_guest_reaches_what_the_page_needs_and_no_other_route(served: Shared) -> None:
    paths = {path for _, path in routes(served)} - {"/login", "/logout"}
    opened = {path for path in paths if GUEST_PATHS.fullmatch(path)}
    opened -= {path for path in opened if path.endswith("/") and path != "/"}
    assert opened <= FOR_GUESTS
    with served.login() as guest:
        for path in sorted(paths - opened):
            if GUEST_PATHS.fullmatch(path):
                continue
            for method in ("GET", "HEAD", "POST"):
                answer = guest.request(method, path, json={} if method == "POST" else None)
                shut = 401 if path.startswith("/v1/") else 404  # a login is no API key
                assert answer.status_code == shut, (method, path, answer.status_code)


def test_the_links_key_opens_v1_and_nothing_else(served: Shared) -> None:
    bearer = {"authorization": f"Bearer {served.view().key}"}
    with httpx.Client(base_url=served.guest_url, headers=bearer, timeout=20) as program:
        for method, path in routes(served):
            if method == "GET" and path not in ("/login", "/logout"):
                code = program.get(path).status_code
                if path.startswith("/v1/"):
                    assert code != 401, path
                else:
                    assert code == (303 if path == "/" else 401), path


@pytest.mark.parametrize("path", ["/", "/gradio_api/queue/data", "/gradio_api/stream/x", "/v1/x"])
def test_no_websocket_opens(served: Shared, path: str) -> None:
    with served.login() as guest:
        cookie = "; ".join(f"{name}={value}" for name, value in guest.cookies.items())
    for sent in ("", f"Cookie: {cookie}\r\n"):
        with socket.create_connection(served.doors[-1].reach, timeout=10) as raw:
            raw.sendall(
                f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {os.urandom(16).hex()}\r\n{sent}"
                "\r\n".encode()
            )
            assert b" 101 " not in raw.recv(64)
