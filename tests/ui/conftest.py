"""A real server over the fake engine, and real Chromium to look at it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from app import ports
from app.access import Access, Login
from app.downloads import make_downloads
from app.server import Server, make_site
from app.ui import page
from tests.app.desk_kit import Kit
from tests.app.fake_engine import Script
from tests.ui.screens import WIDE, Screen

CHROMIUM = "/usr/bin/chromium"
LOGINS = (Login("me", "secret-pass", "owner"), Login("you", "visitor-pass", "guest"))


@dataclass(frozen=True)
class Served:
    """The page under test and what stands behind it."""

    url: str
    kit: Kit

    @property
    def script(self) -> Script:
        return self.kit.script


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Makes servers; all end with the test."""
    os.environ.setdefault("GRADIO_TEMP_DIR", str(tmp_path / "gradio"))
    made: list[tuple[Server, Kit]] = []

    def make(script: Script | None = None, shared: bool = False, linger: float = 60.0) -> Served:
        kit = Kit(tmp_path, script, linger)
        listener = ports.listen("127.0.0.1", 0)
        access = Access(LOGINS if shared else ())
        site = make_site(
            page.build(kit.controller),
            access,
            lambda: {"state": "x"},
            page.look(),
            (make_downloads(kit.controller),),
        )
        server = Server(site, listener)
        server.start()
        made.append((server, kit))
        kit.controller.start()
        return Served(ports.address(listener), kit)

    yield make
    for server, kit in made:
        kit.close()
        server.stop()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=20_000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser, request: pytest.FixtureRequest) -> Iterator[BrowserContext]:
    """On a wide light screen, unless a test asks for others by `screens.on_both_screens`."""
    screen: Screen = getattr(request, "param", WIDE)
    context = browser.new_context(
        viewport={"width": screen.width, "height": screen.height}, color_scheme=screen.scheme
    )
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    context.set_default_timeout(20_000)
    yield context
    context.close()


@pytest.fixture
def tab(context: BrowserContext) -> Iterator[Page]:
    """A tab that must not meet a script error or ask another host for anything."""
    tab = context.new_page()
    wrong: list[str] = []
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("request", lambda request: wrong.append(request.url) if _foreign(request.url) else None)
    yield tab
    assert wrong == []


def _foreign(url: str) -> bool:
    return not url.startswith(("http://127.0.0.1:", "data:", "blob:"))
