"""A llama.cpp server as a contender: started here, asked over its own HTTP API, ended here.

It gets the same token ids as everyone. Knows urllib and a process; nothing of models.
"""

from __future__ import annotations

import json
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from specdec.bench.plan import LLAMA, Server
from specdec.bench.sample import PLAIN, Reply
from specdec.errors import EngineError

PATIENCE = 120.0
"""Seconds a server may take to load its file."""


class LlamaServer:
    """Plain decoding through /completion, streamed: one line of data a token."""

    engine = LLAMA
    drafter = PLAIN

    def __init__(self, address: str) -> None:
        self._address = address

    def reply(self, prompt: tuple[int, ...], tokens: int) -> Reply:
        """Greedy, nothing cached. Raises EngineError for a server that fails."""
        body = {
            "prompt": list(prompt),
            "n_predict": tokens,
            "temperature": 0.0,
            "ignore_eos": True,
            "cache_prompt": False,
            "stream": True,
            "return_tokens": True,
        }
        ids: list[int] = []
        marks: list[tuple[int, float]] = []
        began = time.perf_counter()
        for event in self._events(body):
            new = [int(token) for token in event.get("tokens") or ()]
            if new:
                ids += new
                marks.append((len(ids), time.perf_counter() - began))
        if not marks:
            raise EngineError("llama.cpp's server sent no tokens.", "Use a recent llama-server.")
        return Reply(tuple(ids), tuple(marks), len(marks), 0, 0)

    def _events(self, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        request = urllib.request.Request(
            f"{self._address}/completion",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as stream:
                for line in stream:
                    if line.startswith(b"data: ") and line.strip() != b"data: [DONE]":
                        yield json.loads(line[6:])
        except (OSError, ValueError) as error:
            raise EngineError(
                f"llama.cpp's server did not answer: {error}", "Try it by hand, or leave it out."
            ) from error


@contextmanager
def serving(server: Server, threads: int, context: int) -> Iterator[LlamaServer]:
    """Start the binary on a free port of this machine, wait until it is ready, end it after.

    Raises EngineError with its last words when it does not start.
    """
    port = _free_port()
    words = [str(server.binary), "-m", str(server.gguf), "--host", "127.0.0.1"]
    words += ["--port", str(port), "-c", str(context), "-t", str(threads), "-np", "1"]
    with tempfile.TemporaryFile() as log:
        try:
            process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT)
        except OSError as error:
            raise EngineError(
                f"{server.binary} cannot be run: {error}.", "Name llama.cpp's llama-server."
            ) from error
        try:
            address = f"http://127.0.0.1:{port}"
            if not _ready(address, process):
                log.seek(0)
                tail = log.read().decode(errors="replace").strip().splitlines()[-1:]
                raise EngineError(
                    f"llama.cpp's server did not start: {' '.join(tail) or 'it said nothing'}",
                    "Check --llama-server and --gguf.",
                )
            yield LlamaServer(address)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _ready(address: str, process: subprocess.Popen[bytes]) -> bool:
    until = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=2) as answer:
                if answer.status == 200:
                    return True
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
