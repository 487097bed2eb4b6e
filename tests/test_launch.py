"""The one command, as a process of its own: address, page before the model, ends in time."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from tests.launching import FAKE, ROOT, Program, program

END_S = 5.0
QUICK = ("0", "0")
LOADING = ("600", "0")


def fake(tmp_path: Path, times: tuple[str, str], *more: str) -> tuple[str, ...]:
    return (*FAKE, *times, "--no-browser", "--port", "0", "--data-dir", str(tmp_path), *more)


def run(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "launch.py"), *arguments],
        cwd=cwd, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_the_page_is_there_before_the_model(tmp_path: Path) -> None:
    with program(*fake(tmp_path, LOADING)) as started:
        assert "gradio" in httpx.get(started.url, timeout=10).text
        assert time.monotonic() - started.begun < 30  # 10 s on a quiet machine; this one is shared
        health = started.health()
        assert health["state"] == "loading"
        assert health["phase"]
        assert health["device"] is None
        assert set(health) >= {"state", "device", "device_reason", "dtype", "target", "draft"}
        assert started.end() < END_S  # E11, while loading
        assert started.process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_while_idle_with_a_tab_open(tmp_path: Path, number: int) -> None:
    """E11. The engine's close hangs and its process ignores every signal but a kill."""
    with program(*fake(tmp_path, QUICK)) as started:
        started.wait_state("ready")
        health = started.health()
        assert health["device"]
        assert health["device_reason"]
        versions = health["versions"]
        assert isinstance(versions, dict)
        assert {"python", "gradio", "specdec-chat", "fake"} <= set(versions)
        folder = Path(f"/proc/{started.process.pid}/cwd").readlink()
        assert folder != ROOT  # LIBRARIES f: gradio may serve what lies in the working directory
        assert [p.name for p in folder.iterdir()] == ["cache"]
        opened = threading.Event()
        tab = threading.Thread(target=_tab, args=(started.url, opened), daemon=True)
        tab.start()
        assert opened.wait(20)
        assert len(started.children()) >= 1
        assert started.end(number) < END_S
        assert started.process.returncode == 0
        assert not folder.exists()
        tab.join(5)
        assert not tab.is_alive()


def test_it_ends_while_starting(tmp_path: Path) -> None:
    with program(*fake(tmp_path, LOADING)) as started:
        started.wait_for("engine process")  # gradio is being imported now
        assert started.end() < END_S
        assert started.process.returncode == 0


def _tab(url: str, opened: threading.Event) -> None:
    try:
        with httpx.stream("GET", f"{url}/gradio_api/heartbeat/tab1", timeout=30) as stream:
            for _ in stream.iter_lines():
                opened.set()
    except httpx.HTTPError:
        return


def test_started_twice_each_prints_its_own_address(tmp_path: Path) -> None:
    """E12."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    one = fake(tmp_path / "one", QUICK, "--port", port)
    two = fake(tmp_path / "two", QUICK, "--port", port)
    with program(*one) as first:
        assert first.url == f"http://127.0.0.1:{port}"
        with program(*two) as second:
            second.wait_for(rf"Port {port} is in use")
            assert second.url != first.url
            second.wait_state("ready")
            second.process.send_signal(signal.SIGTERM)
            second.wait_for("Closing")
            assert second.end(signal.SIGTERM) < 1.5  # a second signal does not wait
            assert second.process.returncode == 130
        first.process.kill()
        first.process.wait(10)
    with program(*one) as again:  # the port is free at once, the database whole
        assert again.url == f"http://127.0.0.1:{port}"
        again.wait_state("ready")
        assert not list((tmp_path / "one").glob("*damaged*"))


def test_a_share_link_that_cannot_be_made_is_said_and_local_use_goes_on(tmp_path: Path) -> None:
    """E04. Runs for real where the tunnel's servers cannot be reached, as here."""
    with program(*fake(tmp_path, QUICK, "--share", "--share-hours", "2")) as started:
        url = started.url
        said = started.wait_for(r"No public link|Public link", 60)
        if said[0] == "Public link":
            pytest.skip("this machine reaches the tunnel's servers")
        assert httpx.get(f"{url}/health", timeout=10).status_code == 200  # no login for the owner
        assert not any("Login for" in line for line in started.lines)


def test_on_a_network_everybody_logs_in(tmp_path: Path) -> None:
    """`--host`: the same address for this machine and others, and no way past the login."""
    with program(*fake(tmp_path, QUICK, "--host", "0.0.0.0")) as started:
        url = started.url
        owner = started.wait_for(r"Login for owner .*: (\S+) / (\S+)")
        guest = started.wait_for(r"Login for guest .*: (\S+) / (\S+)")
        key = started.wait_for(r"API key (\S+)")[1]
        assert owner[2] != guest[2]
        started.wait_for(r"Other machines on this network")
        for headers in ({}, {"host": "127.0.0.1"}, {"host": "localhost", "origin": url}):
            for path in ("/health", "/config", "/v1/models"):
                answer = httpx.get(url + path, headers=headers, timeout=10)
                assert answer.status_code == 401
        for found, role in ((owner, "owner"), (guest, "guest")):
            with httpx.Client(base_url=url, timeout=10) as client:
                form = {"username": found[1], "password": found[2]}
                assert client.post("/login", data=form).status_code == 303
                assert client.get("/").status_code == 200
                assert ("versions" in client.get("/health").json()) == (role == "owner")
        bearer = {"authorization": f"Bearer {key}"}
        assert httpx.get(f"{url}/v1/models", headers=bearer, timeout=10).status_code == 200


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--target", "qwen2.5-coder-1.5b-instrukt"), "qwen2.5-coder-1.5b-instruct"),
        (("--draft", "smollm-135m-instruct"), "smollm2-135m-instruct"),
        (("--target", "ngram"), "ngram"),
        (("--port", "many"), "--port"),
        (("--frobnicate",), "--frobnicate"),
        (("--host", "no.such.host.invalid"), "--host"),
    ],
)
def test_bad_input_is_one_line_and_code_2(
    tmp_path: Path, arguments: tuple[str, ...], named: str
) -> None:
    result = run("--no-venv", "--no-browser", "--data-dir", str(tmp_path), *arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    (line,) = result.stderr.strip().splitlines()
    assert named in line


def test_help_needs_no_package() -> None:
    result = subprocess.run(
        [sys.executable, "-S", "-E", str(ROOT / "launch.py"), "--help"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    for option in ("--target", "--share", "--data-dir", "--no-venv", "--draft-dtype"):
        assert option in result.stdout


def test_without_packages_and_without_a_venv_it_says_what_to_do(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-S", "-E", str(ROOT / "launch.py"), "--no-venv"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert result.returncode == 2
    (line,) = result.stderr.strip().splitlines()
    assert "torch" in line
    assert "pip install -e" in line


@pytest.mark.parametrize("version", [(3, 10), (3, 14)])
def test_another_python_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], version: tuple[int, int]
) -> None:
    import launch

    monkeypatch.setattr("launch.sys.version_info", (*version, 1))
    assert launch.main([]) == 2
    error = capsys.readouterr().err
    assert re.fullmatch(r"launch\.py: needs Python 3\.11 to 3\.13; this is 3\.1\d\.\n", error)


def test_the_harness_sees_a_process_left_behind(tmp_path: Path) -> None:
    """A check that could not fail would prove nothing."""
    script = (
        "import subprocess, time; subprocess.Popen(['sleep', '30']);"
        "print('Chat: x', flush=True); time.sleep(30)"
    )
    started = Program([sys.executable, "-c", script])
    try:
        started.wait_for("Chat")
        with pytest.raises(AssertionError, match="left behind"):
            started.end(signal.SIGTERM)
    finally:
        os.killpg(started.process.pid, signal.SIGKILL)
