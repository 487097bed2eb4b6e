"""The one middleware before every route: host, origin, size, login, role. Knows no page or engine.

The owner and a guest on a shared link both come from 127.0.0.1, so no address decides anything.
What is not named below is closed, also for the owner: a route a new gradio brings stays shut.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.access import OWNER, Access, AccessRole, Visitor
from app.api.refusals import unauthorised
from app.login import login_page, post_login, post_logout, token_of
from specdec.errors import BusyError

ROLE = "specdec.role"
"""Key of the request's role in the ASGI scope."""
VISITOR = "specdec.visitor"
"""Key of the name of who asks: "owner", or a guest's."""
MAX_BODY = 8 * 2**20
MAX_LOGIN_BODY = 4096

GUEST_PATHS = re.compile(
    r"/|/(config|theme\.css|favicon\.ico|manifest\.json|robots\.txt|health)/?"
    r"|/(static|assets|svelte)/.+|/pwa_icon(/\d+)?"
    r"|/gradio_api/(info|startup-events|queue/join|queue/data|cancel|reset|component_server)/?"
    r"|/gradio_api/heartbeat/[^/]+|/gradio_api/call/.+"
)
API_PATHS = re.compile(r"/v1/(models|models/.+|chat/completions|completions)")
OWNER_PATHS = re.compile(
    GUEST_PATHS.pattern
    + r"|/gradio_api/file=.+|/chats|/chats/[0-9a-f]{32}\.(md|json)"
    + r"|/measured/[0-9a-f]{32}\.(json|png|csv)"
)

HEADERS: Mapping[str, str] = {
    # gradio's own page has inline scripts and compiles `js=` handlers, hence the two "unsafe"
    "Content-Security-Policy": (
        "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; "
        "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
        "media-src 'self' data: blob:; connect-src 'self' data: blob:; worker-src 'self' blob:; "
        "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def role_of(request: Any) -> AccessRole:
    """What the person behind a gradio request (or its username) may do; a guest when in doubt."""
    name = request if isinstance(request, str) else getattr(request, "username", None)
    return "owner" if name == "owner" else "guest"


def username(request: Request) -> str | None:
    """gradio's `auth_dependency`: who asks, as `gr.Request.username`."""
    return request.scope.get(VISITOR) if ROLE in request.scope else None


class Gate:
    """Wraps the whole ASGI application; nothing reaches a route without passing it."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app = app
        self.access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        send = _with_headers(send)
        headers = Headers(scope=scope)
        limit = MAX_LOGIN_BODY if scope["path"] == "/login" else MAX_BODY
        refusal = self._stranger(scope, headers) or _too_long(headers, limit)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        receive = _limited(receive, limit)
        if scope["path"] in ("/login", "/logout") and not self.access.open:
            answer = await self._door(Request(scope, receive))
            await answer(scope, receive, send)
            return
        if API_PATHS.fullmatch(scope["path"]):
            await self._program(headers)(_known(scope, self._programs), receive, send)
            return
        token = token_of(headers.get("cookie", ""))
        visitor = self.access.visitor(token)
        refusal = _nobody(scope) if visitor is None else _closed(scope, visitor.role)
        if refusal is None:
            refusal = self._full(scope, token)
        if visitor is None or refusal is not None:
            await (refusal or _nobody(scope))(scope, receive, send)
            return
        try:
            await self.app(_known(scope, visitor), receive, send)
        finally:
            self.access.leave(token)

    @property
    def _programs(self) -> Visitor:
        """All programs that come through a public link are one guest; elsewhere the owner's."""
        way = self.access.way
        return OWNER if way == "network" else Visitor("guest", f"{way}:programs")

    def _full(self, scope: Scope, token: str | None) -> Response | None:
        try:
            self.access.enter(token)
        except BusyError as error:
            if scope["path"] == "/":
                return login_page(str(error), 429)
            return JSONResponse({"detail": str(error)}, 429)
        return None

    def _stranger(self, scope: Scope, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        if self.access.open and not _is_local(host):
            # a page elsewhere can point its own name at 127.0.0.1 (DNS rebinding)
            return PlainTextResponse(f"This server does not answer to the name {host!r}.", 421)
        if scope["method"] in ("GET", "HEAD"):
            return None
        if scope["method"] != "POST":
            return PlainTextResponse("Method not allowed.", 405)
        origin = headers.get("origin")
        if origin is not None:
            # only the tunnel can set x-forwarded-host: a page elsewhere would need our consent
            names = {host} | ({headers.get("x-forwarded-host", host)} - {""})
            if origin.partition("://")[2] not in names:
                return PlainTextResponse("Requests from another site are refused.", 403)
        elif headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return PlainTextResponse("Requests from another site are refused.", 403)
        return None

    def _program(self, headers: Headers) -> ASGIApp:
        """Another program's way in: its key, never a cookie."""
        scheme, _, key = headers.get("authorization", "").partition(" ")
        if self.access.opens(key.strip() if scheme.lower() == "bearer" else ""):
            return self.app
        return unauthorised()

    async def _door(self, request: Request) -> Response:
        if request.url.path == "/logout":
            if request.method == "POST":
                return post_logout(request, self.access)
            return PlainTextResponse("Method not allowed.", 405)
        return await post_login(request, self.access) if request.method == "POST" else login_page()


def _known(scope: Scope, visitor: Visitor) -> Scope:
    return {**scope, ROLE: visitor.role, VISITOR: visitor.name}


def _nobody(scope: Scope) -> Response:
    if scope["path"] == "/" and scope["method"] == "GET":
        return RedirectResponse("./login", 303)
    return JSONResponse({"detail": "Not authenticated"}, 401)


def _closed(scope: Scope, role: AccessRole) -> Response | None:
    paths = OWNER_PATHS if role == "owner" else GUEST_PATHS
    if paths.fullmatch(scope["path"]):
        return None
    return JSONResponse({"detail": "Not found"}, 404)


def _is_local(host: str) -> bool:
    """Whether a Host header names this machine's loopback, whatever the port."""
    name = re.sub(r":\d+$", "", host).strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _too_long(headers: Headers, limit: int) -> Response | None:
    length = headers.get("content-length", "0")
    if length.isdecimal() and int(length) <= limit:
        return None
    return PlainTextResponse("The request is too long.", 413, {"Connection": "close"})


def _limited(receive: Receive, limit: int) -> Receive:
    """Cuts off a body that is longer than its header said, or said nothing."""
    seen = 0

    async def wrapped() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        return {"type": "http.disconnect"} if seen > limit else message

    return wrapped


def _with_headers(send: Send) -> Send:
    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
        await send(message)

    return wrapped
