"""The whole program as a process, a browser at its page: it ends, restarts, loads nothing else."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from app.history import History
from tests.launching import FAKE, Program, program
from tests.ui.test_page import ready, send

END_S = 5.0


def start(tmp_path: Path, *how: str) -> tuple[str, ...]:
    return (*how, "--no-browser", "--port", "0", "--data-dir", str(tmp_path))


def open_page(tab: Page, started: Program) -> None:
    tab.goto(started.url)
    expect(tab.locator("#message textarea")).to_be_editable()


@pytest.mark.ui
def test_it_ends_while_answering_and_the_half_reply_is_there_after_a_restart(
    tmp_path: Path, tab: Page
) -> None:
    """E11, E13, B15: the engine's close hangs, the tab is open, the reply is being written."""
    with program(*start(tmp_path, *FAKE, "0", "0.3")) as started:
        open_page(tab, started)
        ready(tab)
        send(tab, "a question worth keeping")
        expect(tab.locator("#live .writing")).to_contain_text("decoding")
        assert started.end() < END_S
        assert started.process.returncode == 0
    history = History(tmp_path / "history.db")
    (chat,) = history.conversations()
    question, reply = history.messages(chat.id)
    history.close()
    assert question.content == "a question worth keeping"
    assert "decoding" in reply.content
    assert reply.state in ("partial", "interrupted")
    with program(*start(tmp_path, *FAKE, "0", "0")) as again:
        open_page(tab, again)
        expect(tab.locator("#thread .turn.user")).to_contain_text("worth keeping")
        expect(tab.locator("#thread .turn.reply")).to_contain_text("decoding")


@pytest.mark.ui
def test_the_policy_lets_nothing_load_from_another_host(tmp_path: Path, tab: Page) -> None:
    """Even what slipped through the page's own cleaning: the browser itself refuses."""
    asked = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as other:

        def serve() -> None:
            try:
                other.accept()
            except OSError:
                return
            asked.set()

        threading.Thread(target=serve, daemon=True).start()
        elsewhere = f"http://127.0.0.1:{other.getsockname()[1]}"
        with program(*start(tmp_path, *FAKE, "0", "0")) as started:
            refused: list[str] = []
            tab.on("console", lambda line: refused.append(line.text))
            open_page(tab, started)
            ready(tab)
            assert not [text for text in refused if "Content Security Policy" in text]
            tab.evaluate(
                """async (url) => {
                    const image = document.body.appendChild(document.createElement('img'));
                    image.src = url + '/x.png';
                    const style = document.head.appendChild(document.createElement('style'));
                    style.textContent = `body { background: url(${url}/y.png) }`;
                    await fetch(url + '/z').catch(() => null);
                    await new Promise((done) => setTimeout(done, 500));
                }""",
                elsewhere,
            )
            assert sum("Content Security Policy" in text for text in refused) >= 3
            assert not asked.is_set()


@pytest.mark.real
def test_a_real_model_answers_and_everything_ends_in_time(tmp_path: Path, tab: Page) -> None:
    """First start with an empty data folder; then ends while loading, answering and idle."""
    tab.set_default_timeout(180_000)
    with program(*start(tmp_path, "launch.py")) as first:
        open_page(tab, first)
        assert first.health()["state"] in ("starting", "loading")
        first.wait_state("ready", 300)
        expect(tab.locator(".pill.on, .pill.plain, .pill.warn")).to_be_visible()
        send(tab, "Write a long story about a lighthouse.")
        expect(tab.locator("#live .writing")).to_be_visible()
        tab.wait_for_timeout(1500)
        assert first.end() < END_S  # answering
    with program(*start(tmp_path, "launch.py")) as second:
        open_page(tab, second)
        assert second.health()["state"] in ("starting", "loading")
        expect(tab.locator("#thread .turn.user")).to_contain_text("lighthouse")
        time.sleep(1)
        assert second.end() < END_S  # loading
    with program(*start(tmp_path, "launch.py")) as third:
        third.wait_state("ready", 120)
        health = third.health()
        assert health["target"] == "smollm2-135m-instruct"
        assert health["device_reason"]
        assert third.end() < END_S  # idle
