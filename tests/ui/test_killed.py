"""The whole program killed at any moment of a reply, seen from a browser: what was shown is there.

Issue 5: "after a kill -9 of the whole program at 20 random points every message that had shown a
token is there". SPECDEC_KILLS=20 tries as many; docs/log.md has a run of it.
"""

from __future__ import annotations

import os
import random
import re
import signal
import time
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from app.history import History
from tests.launching import FAKE, Program, program
from tests.ui.test_page import ready, send

POINTS = int(os.environ.get("SPECDEC_KILLS", "2"))
TOKEN_S = 0.05
TAIL = 200
"""Characters that may be lost: those of a second (`app.replies`), 20 tokens here, with some air."""
BEGINNING = 100
"""Letters compared: no block of code stands in them, whose buttons are no part of the reply."""


def kill(started: Program) -> None:
    """The server and its engine's process, with no word to either."""
    for process in [*started.children(), started.process]:
        os.kill(process.pid, signal.SIGKILL)
    started.process.wait(10)


def letters(text: str) -> str:
    """What Markdown leaves as it is."""
    return re.sub(r"[^A-Za-z]", "", text)


def shown(tab: Page) -> str:
    """The reply being written or just written, as the reader sees it."""
    bodies = tab.locator("#live .body, #thread .turn.reply .body").all_inner_texts()
    return bodies[-1] if bodies else ""


@pytest.mark.ui
def test_what_had_shown_a_token_is_there_after_every_kill(tmp_path: Path, tab: Page) -> None:
    moments = random.Random(5)
    seen: list[tuple[str, str]] = []
    for point in range(POINTS):
        how = (*FAKE, "0", str(TOKEN_S), "--no-browser", "--port", "0", "--data-dir")
        with program(*how, str(tmp_path)) as started:
            tab.goto(started.url)
            expect(tab.locator("#message textarea")).to_be_editable()
            ready(tab)
            for question, _ in seen[-1:]:
                expect(tab.locator("#thread .turn.user").last).to_contain_text(question)
            send(tab, f"question {point}")
            expect(tab.locator("#live .writing")).to_contain_text(re.compile(r"\w"))
            time.sleep(moments.uniform(0, 2))
            said = shown(tab)
            kill(started)
        assert said
        seen.append((f"question {point}", said))
    history = History(tmp_path / "history.db")
    try:
        assert history.notice == ""  # the file is whole
        rows = [row for chat in history.conversations() for row in history.messages(chat.id)]
    finally:
        history.close()
    replies = {q.content: r for q, r in pairwise(rows) if q.role == "user"}
    assert list(replies) == [question for question, _ in seen]
    lost = [len(said) - len(replies[question].content) for question, said in seen]
    print(f"{POINTS} kills, characters lost of what was shown: {lost}")
    for (question, said), missing in zip(seen, lost, strict=True):
        assert replies[question].role == "assistant"
        kept, told = letters(replies[question].content)[:BEGINNING], letters(said)[:BEGINNING]
        assert kept
        assert told.startswith(kept) or kept.startswith(told)
        assert missing <= TAIL
