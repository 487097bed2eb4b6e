"""The login page and its two routes. Knows nothing of gradio, which is never sent before login."""

from __future__ import annotations

import html
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from app.access import SESSION_S, Access
from app.words import tr
from specdec.errors import BusyError

COOKIE = "specdec-session"

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>
:root{{color-scheme:light dark}}body{{font:16px/1.5 system-ui,sans-serif;display:grid;
place-items:center;min-height:90vh;margin:0}}form{{display:grid;gap:.75rem;width:min(20rem,90vw)}}
input,button{{font:inherit;padding:.5rem;width:100%;box-sizing:border-box}}
[role=alert]{{color:#c62828;margin:0}}</style></head><body><main><form method="post" action="login">
<h1>{title}</h1>{notice}<p>{where}</p>
<label>{name} <input name="username" autocomplete="username" required autofocus></label>
<label>{password} <input name="password" type="password" autocomplete="current-password" required>
</label><button>{title}</button></form></main></body></html>"""


def token_of(cookie_header: str) -> str | None:
    """The session token in a Cookie header."""
    try:
        morsel = SimpleCookie(cookie_header).get(COOKIE)
    except CookieError:  # a malformed header is nobody's session
        return None
    return morsel.value if morsel else None


def login_page(notice: str = "", status: int = 200) -> HTMLResponse:
    """The form, with what went wrong."""
    alert = f'<p role="alert">{html.escape(notice)}</p>' if notice else ""
    page = PAGE.format(
        title=tr("Log in"),
        notice=alert,
        where=tr("The name and password were printed where the program was started."),
        name=tr("Name"),
        password=tr("Password"),
    )
    return HTMLResponse(page, status, {"Cache-Control": "no-store"})


async def post_login(request: Request, access: Access) -> Response:
    """303 to the page with a session cookie; 401 or 429 with the form."""
    form = parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=8)
    user, password = (form.get(name, [""])[0] for name in ("username", "password"))
    try:
        token = access.login(user.strip(), password)
    except BusyError as error:
        return login_page(str(error), 429)
    if token is None:
        return login_page(tr("That name and password do not fit."), 401)
    response = RedirectResponse("./", 303)
    secure = request.headers.get("x-forwarded-proto", request.url.scheme) == "https"
    response.set_cookie(
        COOKIE, token, int(SESSION_S), httponly=True, samesite="strict", secure=secure
    )
    return response


def post_logout(request: Request, access: Access) -> Response:
    """Ends this session only."""
    access.logout(token_of(request.headers.get("cookie", "")) or "")
    response = RedirectResponse("./login", 303)
    response.delete_cookie(COOKIE)
    return response
