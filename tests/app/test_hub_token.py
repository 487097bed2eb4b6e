"""The hub's token: kept in huggingface_hub's own store, and nowhere else to be found."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.specdec.store_kit import FakeHub, serve

TOKEN = "hf_secretsecretsecret"
SCRIPT = """
import logging, sys
logging.basicConfig(level=logging.DEBUG)
from app import hub_token
from specdec.torch_env import prepare
prepare()
from specdec.errors import SpecdecError
for line in sys.stdin:
    act, _, rest = line.strip().partition(" ")
    try:
        if act == "keep": hub_token.keep(rest)
        if act == "remove": hub_token.remove()
        print("known", hub_token.known())
    except SpecdecError as error:
        print(type(error).__name__, error)
"""


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with serve(FakeHub({}, token=TOKEN)) as running:
        yield running


def ask(folder: Path, endpoint: str, *lines: str, **more: str) -> tuple[list[str], str]:
    """What was printed, and everything that was said anywhere; huggingface_hub reads its settings
    when it is imported, hence a process."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING"))}
    environment |= {"HF_ENDPOINT": endpoint, "HF_HOME": str(folder), "PYTHONPATH": str(Path.cwd())}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input="\n".join(lines),
        env={**environment, **more},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return run.stdout.splitlines(), run.stdout + run.stderr


def test_it_is_checked_kept_unreadable_to_others_and_removed(tmp_path: Path, hub: FakeHub) -> None:
    lines, said = ask(tmp_path, hub.url, "known", f"keep {TOKEN}", "remove")
    assert lines == ["known False", "known True", "known False"]
    assert TOKEN not in said
    assert [path for path, _, _ in hub.asked] == ["/api/whoami-v2"]
    assert not (tmp_path / "token").exists()
    ask(tmp_path, hub.url, f"keep {TOKEN}")
    for name in ("token", "stored_tokens"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    others = tmp_path / "stored_tokens"
    others.write_text(others.read_text() + "\n[another]\nhf_token = hf_another\n")
    ask(tmp_path, hub.url, "remove")
    assert TOKEN not in others.read_text()
    assert "hf_another" in others.read_text()  # of another program, and not in use


def test_one_that_the_hub_refuses_or_cannot_check_is_not_kept(tmp_path: Path, hub: FakeHub) -> None:
    wrong = "hf_wrongwrongwrong"
    lines, said = ask(tmp_path, hub.url, f"keep {wrong}", "keep not a token", "known")
    assert lines[0].startswith("SourceError The hub does not accept this token.")
    assert lines[1].startswith("SettingError That is no access token.")
    assert lines[2] == "known False"
    assert wrong not in said
    lines, said = ask(tmp_path, "http://127.0.0.1:9", f"keep {TOKEN}", "known")
    assert lines[0].startswith("SourceError The hub does not answer: the token was not checked")
    assert lines[1] == "known False"
    assert TOKEN not in said


def test_one_from_the_environment_is_said_to_be_there(tmp_path: Path, hub: FakeHub) -> None:
    lines, said = ask(tmp_path, hub.url, "known", "remove", f"keep {TOKEN}", HF_TOKEN=TOKEN)
    assert lines[0] == "known True"
    assert lines[1].startswith("SettingError The token comes from HF_TOKEN")
    assert lines[2].startswith("SettingError HF_TOKEN in the environment comes before")
    assert TOKEN not in said
