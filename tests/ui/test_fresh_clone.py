"""The first "done when": a fresh clone, an empty cache, `python launch.py`, and a real browser.

SPECDEC_SCREENSHOT names a file for the picture of it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.launching import ROOT, program
from tests.ui.steps import ready, send, settled

pytestmark = [pytest.mark.real, pytest.mark.timeout(1500)]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Every tracked file, nothing else: no environment, no cache, no weights."""
    folder = tmp_path / "clone"
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode == 0:
        for name in filter(None, listed.stdout.split("\0")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    else:  # already a copy of the tracked files, as in the check
        left_out = shutil.ignore_patterns(".venv", "*.egg-info", ".*_cache", "__pycache__", "data")
        shutil.copytree(ROOT, folder, ignore=left_out)
    return folder


GROWTH = """() => {
  window.lengths = [];
  new MutationObserver(() => {
    const now = document.querySelector('#live .writing')?.innerText.length;
    if (now && now !== window.lengths.at(-1)) window.lengths.push(now);
  }).observe(document.querySelector('#live'), { childList: true, subtree: true });
}"""
"""Notes how long the reply being written is, each time it changes: a machine may be quick."""


def test_a_fresh_clone_answers_races_stops_and_remembers(
    clone: Path, tmp_path: Path, tab: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "HF_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    for name in ("VIRTUAL_ENV", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    tab.set_default_timeout(120_000)
    expect.set_options(timeout=120_000)
    python = getattr(sys, "_base_executable", sys.executable)
    how = ("launch.py", "--no-browser", "--port", "0")
    with program(*how, python=python, cwd=clone, path=None) as first:
        first.wait_for("Installing into", 120)
        first.wait_for("Chat: http", 900)
        tab.goto(first.url)
        box = tab.locator("#message textarea")
        expect(box).to_be_editable()
        assert first.health()["state"] in ("starting", "loading")
        first.wait_state("ready", 300)
        ready(tab)

        tab.evaluate(GROWTH)
        send(tab, "Write a Python function that merges two sorted lists.")
        expect(tab.locator("#live .figures")).to_contain_text("tok/s")
        settled(tab)
        lengths = tab.evaluate("window.lengths")
        assert len(lengths) > 3  # it streams
        assert lengths == sorted(lengths)
        figures = tab.locator("#thread .turn.reply .figures")
        expect(figures).to_contain_text("speculative")
        expect(figures).to_contain_text("of drafts kept")
        if picture := os.environ.get("SPECDEC_SCREENSHOT"):
            tab.screenshot(path=picture)

        tab.get_by_text("Standard", exact=True).click()
        send(tab, "And one that removes duplicates.")
        settled(tab, 2)
        expect(figures.nth(1)).to_contain_text("plain decoding")

        tab.get_by_text("Speculative", exact=True).click()
        send(tab, "Write a very long story about the sea.")
        expect(tab.locator("#live .writing")).to_be_visible()
        tab.wait_for_timeout(1500)
        tab.click("#stop")
        settled(tab, 3)
        expect(tab.locator("#thread .turn.reply .mark").last).to_have_text("stopped")

        tab.get_by_role("tab", name="Race").click()
        tab.click("#go")
        expect(tab.locator("#board")).to_contain_text(
            re.compile("tokens compared|Differs at token")
        )
        assert first.end() < 5
    with program(*how, python=python, cwd=clone, path=None) as second:
        second.wait_for("Chat: http", 60)
        tab.goto(second.url)
        expect(tab.locator("#message textarea")).to_be_editable(timeout=10_000)
        expect(tab.locator("#thread .turn.user").first).to_contain_text("merges two sorted lists")
        expect(tab.locator("#thread .turn.reply")).to_have_count(3)
        second.wait_state("ready", 120)
        assert second.end() < 5
