"""Benchmarks as they run, on tiny models: this engine, transformers, a server, random weights."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from specdec.bench import bandwidth, llama, own, shapes
from specdec.bench.bandwidth import read_bandwidth
from specdec.bench.forced import Forced
from specdec.bench.own import watched
from specdec.bench.passes import Passes
from specdec.bench.plan import Server
from specdec.cli import main
from specdec.errors import EngineError, SettingError
from specdec.heads.runner import HeadRunner
from specdec.registry import load_registry
from specdec.request import Sampling
from specdec.turn import Task
from tests.specdec.engines import Folders, make_folders

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def small_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read at does not matter here."""
    monkeypatch.setattr(bandwidth, "BIG", 1 << 22)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return make_folders(tmp_path_factory.mktemp("bench"))


def bench(folders: Folders, tmp_path: Path, *words: str) -> dict[str, object]:
    """Run it on the terminal's own road; the JSON file's content."""
    file = tmp_path / "b.json"
    common = ["--data-dir", str(folders.data), "--offline", "--device", "cpu"]
    assert main(["bench", *common, "--json", str(file), *words]) == 0
    return dict(json.loads(file.read_text("utf-8")))


def test_all_engines_make_the_same_replies_in_one_run(
    folders: Folders, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """fp32 and greedy: every engine and every draft says what plain decoding says."""
    words = ["--target", str(folders.target), "--draft", f"ngram,{folders.draft}"]
    words += ["--dtype", "float32", "--draft-dtype", "float32"]
    words += ["--kinds", "code", "--first", "2", "--tokens", "12"]
    data = bench(folders, tmp_path, *words)
    rows = {(row["engine"], row["drafter"]): row for row in data["rows"]}  # type: ignore[attr-defined]
    draft = str(folders.draft)
    assert {("specdec", "plain"), ("specdec", "ngram"), ("specdec", draft)} <= set(rows)
    theirs = {("transformers", name) for name in ("plain", draft, "ngram")}
    assert theirs <= set(rows)
    for key, row in rows.items():
        assert row["tok_s_min"] <= row["tok_s"] <= row["tok_s_max"]
        assert row["accepted"] <= row["drafted"], key
    for plain in (rows["specdec", "plain"], rows["transformers", "plain"]):
        assert (plain["drafted"], plain["tokens_per_round"]) == (0, 1.0)
    assert rows["transformers", draft]["drafted"] > 0
    out = capsys.readouterr().out
    lines = [line for line in out.splitlines() if line.startswith("| code |")]
    assert len(lines) == len(rows)
    assert all(line.endswith("| 2/2 |") for line in lines), out
    assert "plain decoding cannot pass" in out


def test_sampled_replies_are_those_of_plain_decoding(
    folders: Folders,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Sampling] = []

    def task(prompt: tuple[int, ...], sampling: Sampling, *more: Any) -> Task:
        asked.append(sampling)
        return Task(prompt, sampling, *more)

    monkeypatch.setattr(own, "Task", task)
    words = ["--target", str(folders.target), "--draft", str(folders.draft), "--peers", "none"]
    words += ["--dtype", "float32", "--draft-dtype", "float32", "--kinds", "chat", "--first", "2"]
    words += ["--tokens", "8", "--temperature", "0.8", "--top-p", "0.9", "--presence-penalty", "1"]
    settings = bench(folders, tmp_path, *words)["card"]["settings"]  # type: ignore[index]
    assert (settings["temperature"], settings["top_p"], settings["top_k"]) == (0.8, 0.9, 0)
    sampled = capsys.readouterr().out
    lines = [line for line in sampled.splitlines() if line.startswith("| chat |")]
    assert lines
    assert all(line.endswith("| 2/2 |") for line in lines)
    assert {(s.temperature, s.top_p, s.presence_penalty) for s in asked} == {(0.8, 0.9, 1.0)}


def test_a_file_s_prompts_and_no_peers(folders: Folders, tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    file.write_text(json.dumps({"mine": ["abc abc abc", "def"], "other": ["x"]}))
    words = ["--target", str(folders.target), "--draft", "none", "--peers", "none"]
    data = bench(folders, tmp_path, *words, "--prompts", str(file), "--tokens", "3", "--runs", "2")
    assert {(row["kind"], row["engine"]) for row in data["rows"]} == {  # type: ignore[attr-defined]
        ("mine", "specdec"),
        ("other", "specdec"),
    }
    settings = data["card"]["settings"]  # type: ignore[index]
    assert settings["prompts"] == {"mine": 2, "other": 1}
    assert (settings["tokens"], settings["runs"], settings["drafts"]) == (3, 2, [])


TINY = {
    "id": "tiny-llama", "name": "Llama Tiny", "family": "Llama", "roles": ["target", "draft"],
    "context": 512, "shape": {"layers": 2, "hidden": 64, "intermediate": 96, "heads": 4,
    "kv_heads": 2, "head_dim": 16, "vocab": 320, "tied": True},
}  # fmt: skip


@pytest.fixture
def registered(folders: Folders) -> Folders:
    (folders.data / "models.json").write_text(json.dumps({"models": [TINY]}))
    return folders


@pytest.mark.parametrize(("accept", "kept"), [("1", True), ("0", False)])
def test_random_weights_accept_what_is_forced(
    registered: Folders, tmp_path: Path, accept: str, kept: bool
) -> None:
    words = ["--synthetic", "tiny-l+tiny-llama", "--accept", accept, "--tokens", "24"]
    data = bench(registered, tmp_path, *words, "--dtype", "float32")
    rows = {row["drafter"]: row for row in data["rows"]}  # type: ignore[attr-defined]
    fixed = rows["tiny-llama k=3"]
    assert fixed["drafted"] > 0
    assert fixed["accepted"] == (fixed["drafted"] if kept else 0)
    rounds = 7 if kept else 24  # 1 + 5 x 4 + 3 tokens, or one a round
    assert fixed["tokens_per_round"] == pytest.approx(24 / rounds, abs=1e-4)
    assert rows["plain"]["drafted"] == 0
    assert data["card"]["settings"]["forced_acceptance"] == float(accept)  # type: ignore[index]


def test_a_shape_is_found_by_how_its_id_begins_and_refused_with_gaps(registered: Folders) -> None:
    registry = load_registry(registered.data)
    shape = shapes.shape_for(shapes.find(registry, "llama-3.1-8b"))
    assert (shape.layers, shape.hidden, shape.rows, shape.tied) == (32, 4096, 128256, False)
    assert shapes.shape_for(shapes.find(registry, "qwen3-8b")).qk_norm
    assert shapes.shape_for(shapes.find(registry, "qwen2.5-coder-1.5b")).qkv_bias
    with pytest.raises(SettingError, match="no one shape 'qwen3'"):
        shapes.find(registry, "qwen3")
    for gap in ("gpt-oss-20b", "smollm3-3b", "gemma-3-1b-it"):
        with pytest.raises(SettingError, match=gap):
            shapes.shape_for(shapes.find(registry, gap))


class Still:
    """A scorer that scores zeros and counts what it holds."""

    def __init__(self) -> None:
        self.length = 0

    def score(self, ids: Sequence[int]) -> torch.Tensor:
        self.length += len(ids)
        return torch.zeros(len(ids), 10)


def test_a_forced_draft_is_right_by_a_fixed_pattern_of_positions() -> None:
    forced = Forced(Still(), 0.5)
    forced.truth = [n % 10 for n in range(400)]
    best = [int(forced.score([0])[-1].argmax()) for _ in range(399)]
    right = [best[n] == forced.truth[n + 1] for n in range(399)]
    assert right == [forced.right(n + 1) for n in range(399)]
    assert 160 < sum(right) < 240
    assert int(forced.score([0])[-1].argmax()) == 0  # past what is known nothing is forced


def test_passes_count_once_and_leave_the_classes_as_they_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[int] = []
    ticks = iter(range(100))
    monkeypatch.setattr("specdec.bench.passes.perf_counter", lambda: float(next(ticks)))

    class Slow(Still):
        def score(self, ids: Sequence[int]) -> torch.Tensor:
            calls.append(1)
            return super().score(ids)

    before = (Still.score, Slow.score)
    with Passes([Slow, Still]) as passes:
        Slow().score([1])
        assert calls == [1]
        assert passes.seconds == 1.0  # not what the inner call took once more
        with pytest.raises(TypeError):
            Slow().score(None)  # type: ignore[arg-type]
        Still().score([1, 2])
        assert passes.seconds == 3.0  # one second a call, the failed one too
    assert (Still.score, Slow.score) == before


def test_every_pass_of_a_head_is_counted() -> None:
    work = ("absorb", "fill", "read", "follow")
    before = [vars(HeadRunner)[name] for name in work]
    with watched("cpu", Still()):  # type: ignore[arg-type]
        during = [vars(HeadRunner)[name] for name in work]
    assert all(one is not other for one, other in zip(before, during, strict=True))
    assert [vars(HeadRunner)[name] for name in work] == before


def test_memory_is_read_at_some_speed() -> None:
    bandwidth, how = read_bandwidth(torch.device("cpu"))
    assert 1e8 < bandwidth < 1e13
    assert how in ("sum", "matrix")


SERVER = """#!{python}
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

if "bad.gguf" in sys.argv[sys.argv.index("-m") + 1]:
    sys.exit("error: unknown model format")

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert body["ignore_eos"] and body["stream"] and not body["cache_prompt"]
        assert body["temperature"] == 0.0
        self.send_response(200)
        self.end_headers()
        for n in range(body["n_predict"]):
            row = {{"content": "x", "tokens": [body["prompt"][0] + n]}}
            self.wfile.write(b"data: " + json.dumps(row).encode() + b"\\n\\n")
        self.wfile.write(b'data: {{"content": "", "tokens": [], "stop": true}}\\n\\n')

    def log_message(self, *args):
        pass

port = int(sys.argv[sys.argv.index("--port") + 1])
HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


@pytest.fixture
def server(tmp_path: Path) -> Server:
    """A program that answers as llama-server does."""
    binary = tmp_path / "llama-server"
    binary.write_text(SERVER.format(python=sys.executable))
    binary.chmod(0o755)
    (tmp_path / "good.gguf").write_bytes(b"x")
    return Server(binary, tmp_path / "good.gguf")


@pytest.mark.skipif(sys.platform == "win32", reason="a script is no program there")
def test_a_llama_server_is_started_asked_and_ended(server: Server, tmp_path: Path) -> None:
    with llama.serving(server, 2, 512) as peer:
        made = peer.reply((40, 1), 5)
        assert made.ids == (40, 41, 42, 43, 44)
        assert [n for n, _ in made.marks] == [1, 2, 3, 4, 5]
        assert (made.rounds, made.drafted) == (5, 0)
    with pytest.raises(EngineError, match="did not answer"):
        peer.reply((1,), 1)
    with (
        pytest.raises(EngineError, match="unknown model format"),
        llama.serving(Server(server.binary, tmp_path / "bad.gguf"), 2, 512),
    ):
        pass
