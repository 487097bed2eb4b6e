"""The whole program behind its own address and a way for guests, as tests of sharing want it.

The tunnel's program is one that sleeps, made at gradio's own seam; everything else is real.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from gradio import tunneling

from app import ports
from app.access import Access, Login
from app.api.routes import make_api
from app.door import SideDoor
from app.downloads import make_downloads
from app.guests import GuestLimits
from app.health import health
from app.server import Server, make_site
from app.share import open_tunnel
from app.sharing import ShareView
from app.ui import page
from tests.app.desk_kit import Kit, until
from tests.app.fake_engine import Script


@dataclass
class Shared:
    """A running program. `programs` are the tunnels', `doors` the ways in that were opened."""

    url: str
    kit: Kit
    server: Server
    programs: list[subprocess.Popen[bytes]]
    doors: list[SideDoor]

    @property
    def guest_url(self) -> str:
        return "http://{}:{}".format(*self.doors[-1].reach)

    def view(self) -> ShareView:
        return self.kit.controller.sharing.view(self.kit.owner())

    def share(self, limits: GuestLimits | None = None, hours: float = 8) -> ShareView:
        self.kit.controller.sharing.start(self.kit.owner(), hours, limits or GuestLimits())
        until(lambda: self.view().state != "opening", 10)
        return self.view()

    def end(self) -> None:
        self.kit.controller.sharing.end(self.kit.owner())

    def login(self, login: Login | None = None) -> httpx.Client:
        """A guest who has logged in by the link."""
        known = login or self.view().login
        assert known is not None
        form = {"username": known.user, "password": known.password}
        answer = httpx.post(f"{self.guest_url}/login", data=form, timeout=20)
        assert answer.status_code == 303, answer.text
        return httpx.Client(base_url=self.guest_url, timeout=20, cookies=answer.cookies)


@contextmanager
def sharing(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: Script | None = None,
    access: Access | None = None,
    owner: Login | None = None,
) -> Iterator[Shared]:
    """Serve the product's page; `share` then opens a real door with a made-up link."""
    os.environ.setdefault("GRADIO_TEMP_DIR", str(folder / "gradio"))
    kit = Kit(folder, script)
    listener = ports.listen("127.0.0.1", 0)
    site = make_site(
        page.build(kit.controller),
        access or Access(),
        lambda: health(kit.engine.status()),
        page.look(),
        (make_api(kit.controller), make_downloads(kit.controller)),
    )
    server = Server(site, listener)
    server.start()
    served = Shared(ports.address(listener), kit, server, [], [])

    def setup_tunnel(host: str, port: int, *_: object) -> str:
        tunnel = tunneling.Tunnel("x.example", 7000, host, port, "token", None)
        tunnel.proc = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        served.programs.append(tunnel.proc)
        tunneling.CURRENT_TUNNELS.append(tunnel)
        return "https://x.example"

    def door(way: Access) -> SideDoor:
        served.doors.append(SideDoor(server, way))
        return served.doors[-1]

    monkeypatch.setattr("app.share.networking.setup_tunnel", setup_tunnel)
    kit.controller.sharing.attach(door, open_tunnel, owner)
    kit.controller.start()
    try:
        yield served
    finally:
        kit.close()
        server.stop()
        for program in served.programs:
            program.kill()
            program.wait(5)
