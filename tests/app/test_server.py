"""The server as gradio really runs: defaults off, calls queued, an end in time."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import httpx
import pytest

from app.access import Access
from app.server import QUEUE_SIZE
from tests.app.serving import Served, serving


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(Access()) as served:
        yield served


def test_the_page_and_health_answer(served: Served) -> None:
    page = served.client.get("/")
    assert page.status_code == 200
    assert "gradio" in page.text
    health = served.client.get("/health")
    assert health.headers["content-type"] == "application/json"
    assert health.json() == {"state": "ready", "device": "cpu", "target": "secret-model"}


def test_every_answer_carries_the_headers(served: Served) -> None:
    for path in ("/", "/health", "/config", "/nothing", "/gradio_api/upload"):
        headers = served.client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "http" not in policy
        assert "*" not in policy
        assert headers["x-content-type-options"] == "nosniff"


def test_unsafe_defaults_are_off(served: Served) -> None:
    config = served.client.get("/config").json()
    assert config["analytics_enabled"] is False
    assert served.client.get("/gradio_api/runs").status_code == 404
    assert served.client.get("/monitoring").status_code == 404
    assert served.client.get("/monitoring/summary").status_code == 404
    assert served.client.get("/docs").status_code == 404
    assert served.client.get("/openapi.json").status_code == 404


def test_analytics_are_off_before_gradio_is_imported() -> None:
    """D15: a variable set after the library was loaded has no effect."""
    script = (
        "import os, sys; assert 'gradio' not in sys.modules; import app.server, gradio as gr;"
        "from gradio import analytics;"
        "assert not analytics.analytics_enabled();"
        "assert gr.Blocks().analytics_enabled is False;"
        "import inspect; assert inspect.getfile(gr.Textbox).endswith('textbox.py'); print('off')"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.stdout.strip() == "off", run.stderr


def test_gradio_does_not_rewrite_its_stubs() -> None:
    script = (
        "import app.server, sys;"
        "from gradio import component_meta as m; import gradio as gr; seen = [];"
        "m.create_pyi = lambda *a: seen.append(a) or '';"
        "from app.gradio_import import without_stubs\n"
        "with without_stubs():\n"
        "    m.create_or_modify_pyi(gr.Textbox, 'Textbox', [])\n"
        "print(len(seen))"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.stdout.strip() == "0", run.stderr


def test_the_function_is_told_who_asks(served: Served) -> None:
    event = served.client.post("/gradio_api/call/who", json={"data": ["x"]}).json()["event_id"]
    answer = served.client.get(f"/gradio_api/call/who/{event}").text
    assert '["owner"]' in answer


@pytest.mark.parametrize("path", ["/gradio_api/run/slow", "/gradio_api/api/slow"])
def test_direct_calls_do_not_pass_the_queue(served: Served, path: str) -> None:
    assert served.client.post(path, json={"data": ["x"]}).status_code == 404


def test_fifty_calls_at_once_run_one_by_one_or_are_refused() -> None:
    """E15."""
    with serving(Access()) as served:
        codes: list[int] = []

        def call(n: int) -> None:
            with httpx.Client(base_url=served.url, timeout=20) as client:
                answer = client.post("/gradio_api/call/slow", json={"data": [str(n)]})
                codes.append(answer.status_code)

        threads = [threading.Thread(target=call, args=(n,)) for n in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert codes.count(200) + codes.count(503) == 50
        assert QUEUE_SIZE <= codes.count(200) <= QUEUE_SIZE + 2
        end = time.monotonic() + 5
        while not served.visits.running and time.monotonic() < end:
            time.sleep(0.02)
        assert served.visits.most == 1


def test_an_open_stream_does_not_hold_the_server(served: Served) -> None:
    """E11: a tab keeps a heartbeat and a queue stream open; the fixture's end checks the time."""
    with serving(Access()) as other:
        got = threading.Event()

        def tab() -> None:
            with (
                httpx.Client(base_url=other.url, timeout=20) as client,
                client.stream("GET", "/gradio_api/heartbeat/tab1") as stream,
            ):
                for _ in stream.iter_lines():
                    got.set()

        thread = threading.Thread(target=lambda: _quiet(tab), daemon=True)
        thread.start()
        assert got.wait(10)
        other.client.post("/gradio_api/call/slow", json={"data": ["x"]})
    thread.join(5)
    assert not thread.is_alive()


def test_the_port_is_free_after_the_end() -> None:
    with serving(Access()) as served:
        assert served.client.get("/health").status_code == 200
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{served.url}/health", timeout=2)


def _quiet(work: object) -> None:
    try:
        work()  # type: ignore[operator]
    except httpx.HTTPError:
        return
