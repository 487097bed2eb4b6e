"""The terminal as a user runs it: real processes, one line for bad input, one JSON object."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from specdec.cli import main
from tests.specdec.engines import Folders, make_folders


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return make_folders(tmp_path_factory.mktemp("cli"))


def common(folders: Folders) -> list[str]:
    return ["--data-dir", str(folders.data), "--offline", "--device", "cpu"]


def test_generate_prints_one_json_object(folders: Folders) -> None:
    words = ["generate", *common(folders), "--target", str(folders.target)]
    words += ["--draft", "ngram", "--prompt", "abc abc", "--system", "be brief", "--seed", "3"]
    words += ["--temperature", "0.5", "--top-k", "40", "--top-p", "0.9", "--min-p", "0.01"]
    words += ["--repetition-penalty", "1.1", "--max-tokens", "12", "--k", "3", "--json"]
    words += ["--mode", "speculative", "--rule", "match", "--runner", "static"]
    done = subprocess.run(
        [sys.executable, "-m", "specdec", *words], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    assert set(row) == {"text", "token_ids", "finish_reason", "metrics"}
    asked = {
        "prompt_tokens",
        "new_tokens",
        "rounds",
        "drafted",
        "accepted",
        "first_token_s",
        "decode_s",
        "tok_s",
    }
    assert asked <= set(row["metrics"])
    assert row["metrics"]["new_tokens"] == len(row["token_ids"]) <= 12


BAD = [
    (["generate", "--prompt", "x", "--target", "smolm2-135m"], "smollm2-135m-instruct"),
    (["generate", "--prompt", "x", "--draft", "qwen3-0.6"], "qwen3-0.6b"),
    (["generate", "--prompt", "x", "--temperature", "-1"], "temperature"),
    (["generate", "--prompt", "x", "--temperature", "warm"], "temperature"),
    (["generate", "--prompt", "x", "--top-p", "0"], "top-p"),
    (["generate", "--prompt", "x", "--max-tokens", "0"], "max tokens"),
    (["generate", "--prompt", "x", "--k", "99"], "k is 99"),
    (["generate", "--prompt", "x", "--stop", ""], "stop string"),
    (["generate", "--prompt", "x", "--dtype", "int3"], "dtype"),
    (["generate", "--prompt", "x", "--device", "cuda:7"], "cuda"),
    (["generate", "--prompt", ""], "empty"),
    (["generate"], "--prompt"),
    (["nonsense"], "nonsense"),
    ([], "COMMAND"),
]


@pytest.mark.parametrize(("words", "named"), BAD, ids=[" ".join(w)[:40] for w, _ in BAD])
def test_bad_input_is_one_line_and_exit_code_2(
    words: list[str], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rest = ["--data-dir", str(tmp_path), "--offline"] if words[:1] == ["generate"] else []
    assert main([*words, *rest]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    assert named in lines[0]


def test_an_offline_model_that_is_not_here_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["generate", "--prompt", "x", "--target", "qwen3-8b", "--offline"]
    assert main([*words, "--data-dir", str(tmp_path)]) == 2
    assert "not on this machine" in capsys.readouterr().err


def test_models_lists_every_entry(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--data-dir", str(tmp_path), "--offline"]) == 0
    table = capsys.readouterr().out
    assert main(["models", "--data-dir", str(tmp_path), "--offline", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == len(table.splitlines()) - 1
    for row in rows:
        assert row["id"] in table
    assert {"qwen3-8b", "llama-3.1-8b-instruct", "gpt-oss-20b"} <= {row["id"] for row in rows}
