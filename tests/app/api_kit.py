"""What the tests of `/v1` share: a server over the fake engine, asked by the `openai` client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai

from app import ports
from app.access import Access, make_logins
from app.api.routes import make_api
from app.server import Server, make_site
from tests.app.desk_kit import Kit, finish
from tests.app.fake_engine import Script
from tests.app.serving import Visits, small_page

MODEL = "smollm2-135m-instruct"
ASK: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}


@dataclass(frozen=True)
class Api:
    """A server, what stands behind it, and who may come in."""

    url: str
    kit: Kit
    access: Access

    @property
    def key(self) -> str:
        return self.access.key

    def client(self, key: str = "", **more: Any) -> openai.OpenAI:
        return openai.OpenAI(
            base_url=f"{self.url}/v1", api_key=key or self.key or "none", max_retries=0, **more
        )


@contextmanager
def serving(folder: Path, script: Script | None = None, shared: bool = False) -> Iterator[Api]:
    kit = Kit(folder, script)
    listener = ports.listen("127.0.0.1", 0)
    access = Access(make_logins() if shared else ())
    api = make_api(kit.controller)
    site = make_site(small_page(Visits()), access, lambda: {"state": "x"}, routers=(api,))
    server = Server(site, listener)
    server.start()
    try:
        finish(kit.controller.start())
        yield Api(ports.address(listener), kit, access)
    finally:
        kit.close()
        server.stop()
