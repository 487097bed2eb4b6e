"""What is freed while loading goes back, and ended workers take nothing with them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from specdec.options import EngineOptions
from specdec.process import ProcessEngine
from tests.specdec.engines import ask, load, make_folders, reply

HOLES = """
import torch
from specdec.heap import given_back
import os, psutil
me = psutil.Process()
def churn():
    kept = []
    for _ in range(40):
        big = torch.ones(1_500_000)
        kept.append(torch.ones(20_000))
        del big
    return kept
torch.ones(4_000_000).sum()
start = me.memory_info().rss
with given_back():
    kept = churn()
print(me.memory_info().rss - start)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's own rule")
def test_no_holes_stay_between_what_is_kept() -> None:
    run = subprocess.run(
        [sys.executable, "-c", HOLES], capture_output=True, text=True, check=True, timeout=120
    )
    kept = 40 * 80_000
    assert int(run.stdout) < kept + (4 << 20)


@pytest.mark.slow
def test_ten_switches_return_to_the_first_level(tmp_path: Path) -> None:
    """This process and its workers together, in bytes of their own."""
    folders = make_folders(tmp_path)
    engine = ProcessEngine(EngineOptions(folders.data, device="cpu", offline=True))
    pairs = ((folders.target, folders.draft), (folders.draft, "ngram"))
    levels: list[int] = []
    try:
        for number in range(11):
            load(engine, *pairs[number % 2])
            if number % 2 == 0:
                reply(engine, ask("hello", max_tokens=8))
                levels.append(_level())
    finally:
        engine.close()
    assert len(levels) == 6
    assert max(levels[1:]) < levels[0] * 1.05 + (8 << 20)


def _level() -> int:
    me = psutil.Process()
    running = [me, *me.children(recursive=True)]
    return sum(process.memory_info().rss for process in running)
