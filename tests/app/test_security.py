"""The gate: every route, with and without login; hosts, origins, sizes, forged files."""

from __future__ import annotations

import io
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradio as gr
import httpx
import psutil
import pytest

from app.access import Access, make_logins
from app.api.routes import make_api
from app.downloads import make_downloads
from app.login import COOKIE
from app.security import MAX_BODY, role_of
from app.server import make_site
from tests.app.desk_kit import Kit
from tests.app.serving import Served, Visits, serving, small_page, walk_routes

OPEN_TO_GUESTS = ("/", "/config", "/health", "/theme.css", "/gradio_api/info")
OWNER_ONLY = ("/gradio_api/file=nothing", f"/chats/{'0' * 32}.md", f"/chats/{'0' * 32}.json",
              f"/measured/{'0' * 32}.png")  # fmt: skip


@pytest.fixture(scope="module")
def local() -> Iterator[Served]:
    with serving(Access()) as served:
        yield served


@pytest.fixture(scope="module")
def shared() -> Iterator[Served]:
    with serving(Access(make_logins())) as served:
        yield served


def all_routes(folder: Path) -> list[tuple[str, str]]:
    """(method, path) of every route the application has, gradio's and `/v1` included."""
    kit = Kit(folder)
    ours = (make_api(kit.controller), make_downloads(kit.controller))
    site = make_site(small_page(Visits()), Access(make_logins()), dict, routers=ours)
    kit.close()
    found = sorted(set(walk_routes(site.gate.app.routes)))  # type: ignore[attr-defined]
    assert len(found) > 49, "the walk no longer sees gradio's routes"
    assert {("POST", "/v1/chat/completions"), ("GET", "/measured/{id}.{form}")} <= set(found)
    return found


def test_no_route_answers_without_a_login(shared: Served, tmp_path: Path) -> None:
    """E07."""
    for method, path in all_routes(tmp_path):
        address = path.replace("{", "").replace("}", "").replace(":path", "")
        answer = httpx.request(method, shared.url + address, timeout=20)
        if path == "/":
            allowed = {303} if method == "GET" else {401}
        elif address == "/login":
            allowed = {401}  # the form again: no name was sent
        elif address == "/logout":
            allowed = {405}
        else:
            allowed = {401}
        assert answer.status_code in allowed, (method, path, answer.status_code)
        assert "secret-model" not in answer.text


def test_nothing_of_gradio_is_sent_before_login(shared: Served) -> None:
    answer = httpx.get(shared.url, follow_redirects=True, timeout=20)
    assert str(answer.url) == f"{shared.url}/login"
    assert "gradio" not in answer.text
    assert "<script" not in answer.text


def test_a_guest_has_the_page_and_no_more(shared: Served) -> None:
    with shared.login(1) as guest:
        for path in OPEN_TO_GUESTS:
            assert guest.get(path).status_code == 200, path
        assert guest.get("/health").json() == {"state": "ready"}
        for path in OWNER_ONLY:
            assert guest.get(path).json() == {"detail": "Not found"}
        assert _who(guest) == "guest"
    with shared.login(0) as owner:
        assert owner.get("/health").json()["target"] == "secret-model"
        assert _who(owner) == "owner"
        assert owner.get(OWNER_ONLY[0]).json() != {"detail": "Not found"}


def _who(client: httpx.Client) -> str:
    event = client.post("/gradio_api/call/who", json={"data": ["x"]}).json()["event_id"]
    text = client.get(f"/gradio_api/call/who/{event}").text
    return "owner" if '"owner"' in text else "guest" if '"guest"' in text else text


def test_a_wrong_password_gets_the_form_again_and_then_a_wait() -> None:
    with serving(Access(make_logins())) as served:
        codes = [
            served.client.post("/login", data={"username": "owner", "password": "x"}).status_code
            for _ in range(10)
        ]
        assert codes[0] == 401
        assert codes[-1] == 429
        assert COOKIE not in served.client.cookies


def test_the_cookie_is_closed_to_scripts_and_other_sites(shared: Served) -> None:
    login = shared.access.logins[0]
    form = {"username": login.user, "password": login.password}
    answer = httpx.post(f"{shared.url}/login", data=form, timeout=20)
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "secure" not in cookie  # plain HTTP on this machine
    headers = {"x-forwarded-proto": "https"}
    answer = httpx.post(f"{shared.url}/login", data=form, headers=headers, timeout=20)
    assert "secure" in answer.headers["set-cookie"].lower()


def test_logout_ends_the_session_and_needs_a_post(shared: Served) -> None:
    with shared.login(0) as client:
        assert client.get("/logout").status_code == 405
        assert client.get("/health").status_code == 200
        token = client.cookies[COOKIE]
        assert client.post("/logout").status_code == 303
        assert client.get("/health", headers={"cookie": f"{COOKIE}={token}"}).status_code == 401


@pytest.mark.parametrize("cookie", ["", "x", f"{COOKIE}=", f"{COOKIE}=owner", "\x7f;;==;[", "a=b"])
def test_a_made_up_cookie_is_nobody(shared: Served, cookie: str) -> None:
    answer = httpx.get(f"{shared.url}/health", headers={"cookie": cookie}, timeout=20)
    assert answer.status_code == 401


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("127.0.0.1:7860", 200),
        ("localhost", 200),
        ("LOCALHOST:1", 200),
        ("[::1]:7860", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example:80", 421),
        ("192.168.0.1", 421),
        ("", 421),
    ],
)
def test_an_unprotected_server_answers_only_to_local_names(
    local: Served, host: str, code: int
) -> None:
    """DNS rebinding: a page elsewhere points its own name at this machine."""
    assert local.client.get("/health", headers={"host": host}).status_code == code


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, 200),
        ({"origin": "SELF"}, 200),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": ""}, 403),
        ({"origin": "http://127.0.0.1:1"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-origin"}, 200),
    ],
)
def test_another_site_cannot_post(local: Served, headers: dict[str, str], code: int) -> None:
    sent = {name: local.url if value == "SELF" else value for name, value in headers.items()}
    answer = local.client.post("/gradio_api/call/who", json={"data": ["x"]}, headers=sent)
    assert answer.status_code == code


def test_the_tunnel_s_own_name_may_post(shared: Served) -> None:
    headers = {"origin": "https://x.gradio.live", "x-forwarded-host": "x.gradio.live"}
    with shared.login(1) as guest:
        answer = guest.post("/gradio_api/call/who", json={"data": ["x"]}, headers=headers)
        assert answer.status_code == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(local: Served, method: str) -> None:
    assert local.client.request(method, "/health").status_code == 405


@pytest.mark.parametrize(
    "payload",
    [
        {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}},
        {"path": "/etc/passwd", "url": "/gradio_api/file=/etc/passwd", "orig_name": "x",
         "meta": {"_type": "gradio.FileData"}},
        {"path": "../../../../etc/passwd", "meta": {"_type": "gradio.FileData"}},
    ],
)  # fmt: skip
def test_a_forged_file_is_refused(local: Served, payload: dict[str, Any]) -> None:
    """E06: neither read nor copied. gradio 6.31 does both for a page that is only mounted."""
    answer = local.client.post("/gradio_api/call/show", json={"data": [payload]})
    if answer.status_code == 200:
        text = local.client.get(f"/gradio_api/call/show/{answer.json()['event_id']}").text
        assert "event: error" in text
        assert "passwd" not in text
    else:
        assert answer.status_code in (400, 403, 422)
    assert not list(Path(os.environ["GRADIO_TEMP_DIR"]).rglob("passwd"))


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "//etc/passwd", "..%2f..%2fetc/passwd", "http://127.0.0.1:9/x"]
)
def test_no_file_of_this_machine_is_served(local: Served, path: str) -> None:
    answer = local.client.get(f"/gradio_api/file={path}")
    assert answer.status_code in (400, 403, 404)
    assert "root:" not in answer.text


def test_uploads_are_closed(local: Served) -> None:
    answer = local.client.post("/gradio_api/upload", files={"files": ("a.txt", io.BytesIO(b"x"))})
    assert answer.status_code == 404


def test_a_giant_name_is_refused_unread(shared: Served) -> None:
    """E14: 50 MB of file name, with and without a login, and memory stays flat."""
    before = psutil.Process().memory_info().rss
    with shared.login(0) as owner:
        cookies = ("", f"Cookie: {COOKIE}={owner.cookies[COOKIE]}\r\n")
    for cookie in cookies:
        for length in (f"Content-Length: {50 * 2**20}\r\n", "Transfer-Encoding: chunked\r\n"):
            code = _flood(shared.url, cookie + length)
            assert code in (401, 404, 413, 0), code
    assert psutil.Process().memory_info().rss - before < 40 * 2**20


def _flood(url: str, headers: str) -> int:
    """Send a 50 MB file name as far as the server lets us; the status, 0 for a closed door."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as sock:
        sock.sendall(
            f"POST /gradio_api/upload HTTP/1.1\r\nHost: {host}:{port}\r\n"
            f"Content-Type: multipart/form-data; boundary=B\r\n{headers}\r\n".encode()
        )
        piece = b"a" * 65536
        try:
            if "chunked" in headers:
                piece = b"10000\r\n" + piece + b"\r\n"
            for _ in range(50 * 16):
                sock.sendall(piece)
        except (ConnectionError, TimeoutError):
            pass
        try:
            answer = sock.recv(200)
        except (ConnectionError, TimeoutError):
            return 0
    return int(answer.split()[1]) if answer.startswith(b"HTTP/1.1") else 0


def test_a_long_body_is_cut_off_even_without_a_length(local: Served) -> None:
    def body() -> Iterator[bytes]:
        yield b'{"data": ["'
        for _ in range(MAX_BODY // 65536 + 2):
            yield b"a" * 65536
        yield b'"]}'

    try:
        answer = local.client.post("/gradio_api/call/who", content=body())
    except httpx.HTTPError:
        return  # the door was closed in our face
    assert answer.status_code >= 400


def test_who_is_in_doubt_is_a_guest() -> None:
    assert role_of("owner") == "owner"
    assert role_of("guest") == "guest"
    assert role_of(None) == "guest"
    assert role_of("Owner") == "guest"
    assert role_of(gr.Request()) == "guest"


def test_a_websocket_is_refused(local: Served) -> None:
    headers = {
        "connection": "upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": os.urandom(16).hex(),
    }
    assert local.client.get("/gradio_api/queue/data", headers=headers).status_code != 101
