"""Twenty at once, on a real tiny engine: each gets exactly what it would get alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import openai
import pytest

from app import ports
from app.access import Access
from app.api.routes import make_api
from app.controller import Controller
from app.desk import Options
from app.history import History
from app.server import Server, make_site
from app.settings import SettingsFile
from specdec.contract import Sampling
from specdec.engine import LocalEngine
from specdec.options import EngineOptions
from tests.app.desk_kit import finish
from tests.app.serving import Visits, small_page
from tests.specdec.engines import ask, load, make_folders, reply

TOKENS = 12
PROMPTS = [f"question {number} " + "abc " * (number % 5) for number in range(20)]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEngine]:
    folders = make_folders(tmp_path_factory.mktemp("twenty"))
    engine = LocalEngine(EngineOptions(folders.data, "cpu", "float32", offline=True))
    load(engine, folders.target, folders.draft)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def alone(engine: LocalEngine) -> list[str]:
    """Each prompt's greedy reply, decoded plainly with nobody else there."""
    greedy = {"temperature": 0, "max_tokens": TOKENS, "mode": "standard", "fresh": True}
    texts = [reply(engine, ask(prompt, **greedy))[1].text for prompt in PROMPTS]
    assert len(set(texts)) > 10, "replies must tell the clients apart"
    return texts


@pytest.fixture
def controller(engine: LocalEngine, tmp_path: Path) -> Iterator[Controller]:
    history = History(tmp_path / "history.db")
    controller = Controller(engine, history, SettingsFile(tmp_path / "settings.json"))
    yield controller
    controller.close()
    history.close()


def test_twenty_programs_each_get_their_own_reply(
    controller: Controller, engine: LocalEngine, alone: list[str]
) -> None:
    listener = ports.listen("127.0.0.1", 0)
    api = make_api(controller)
    site = make_site(small_page(Visits()), Access(), lambda: {"state": "x"}, routers=(api,))
    server = Server(site, listener)
    server.start()
    url = f"{ports.address(listener)}/v1"
    client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
    model = client.models.list().data[0].id

    def read(number: int) -> str:
        said = client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": PROMPTS[number]}],
            temperature=0,
            max_tokens=TOKENS,
            stream=True,
        )
        if number == 7:  # hangs up in mid-reply
            next(said)
            said.close()
            return alone[7]
        return "".join(chunk.choices[0].delta.content or "" for chunk in said)

    try:
        with ThreadPoolExecutor(20) as pool:
            texts = pool.map(read, range(20))
            began = time.monotonic()
            assert httpx.get(f"{url}/models", timeout=20).status_code == 200
            assert time.monotonic() - began < 2  # what needs no engine waits for none
            assert list(texts) == alone
    finally:
        server.stop()


def test_twenty_guests_each_get_their_own_reply_and_a_stop_is_ones_own(
    controller: Controller, alone: list[str]
) -> None:
    options = Options(Sampling(temperature=0, max_tokens=TOKENS))
    guests = [controller.session(f"guest {number}", "guest") for number in range(20)]
    desk = controller.desk
    jobs = [
        desk.send(guest, prompt, options) for guest, prompt in zip(guests, PROMPTS, strict=True)
    ]
    assert max(controller.live(job).position for job in jobs) > 5
    desk.stop(guests[19])
    assert finish(jobs[19]).reason == "cancelled"
    assert [finish(job, 60).text for job in jobs[:19]] == alone[:19]
    for guest, text in zip(guests[:19], alone, strict=False):
        rows = controller.thread(guest).rows
        assert [row.content for row in rows if row.role == "assistant"] == [text]
