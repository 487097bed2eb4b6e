"""A program killed at any moment: every message that had shown a token is there afterwards."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.history import History

ROOT = Path(__file__).resolve().parents[2]
POINTS = int(os.environ.get("SPECDEC_KILLS", "4"))
"""Moments tried; docs/log.md has a run of 20."""


@pytest.mark.parametrize("point", range(POINTS))
def test_what_was_shown_is_there_after_a_kill(tmp_path: Path, point: int) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.app.kill_child", str(tmp_path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    lines = [child.stdout.readline()]
    time.sleep(random.Random(point).uniform(0, 1.5))
    child.kill()
    lines += child.stdout.read().splitlines()
    child.stdout.close()
    assert child.wait(10) == -9
    shown: dict[str, dict[str, int]] = {}
    for line in lines:
        conversation, number, seen = line.split()
        shown.setdefault(conversation, {})[f"message {number}"] = int(seen)
    assert shown
    history = History(tmp_path / "history.db")
    try:
        assert history.notice == ""  # the file is whole
        for conversation, messages in shown.items():
            rows = history.messages(conversation)
            for text, seen in messages.items():
                place = next(i for i, row in enumerate(rows) if row.content == text)
                reply = rows[place + 1]
                assert reply.role == "assistant"
                last = (conversation, text) == (list(shown)[-1], list(messages)[-1])
                if not last:
                    assert (reply.state, len(reply.content) >= seen) == ("complete", True)
                else:  # its tail of a second may be gone
                    assert reply.state in ("partial", "complete")
    finally:
        history.close()
