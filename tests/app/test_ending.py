"""Signals, in a process of its own: what is answered, and what was to be ignored."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import os, signal, time
from app.ending import Ending
{before}
ending = Ending()
ending.listen()
try:
    os.kill(os.getpid(), signal.{first})
    time.sleep(0.2)
    print("went on", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(5)
except KeyboardInterrupt:
    print("told to end", flush=True)
    {after}
    print("ended", flush=True)
"""


def lines(first: str, before: str = "", after: str = "pass") -> list[str]:
    script = SCRIPT.format(first=first, before=before, after=after)
    command = [sys.executable, "-c", script]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.stderr == ""
    return run.stdout.split("\n")[:-1]


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGHUP")
def test_under_nohup_a_closed_terminal_does_not_end_it() -> None:
    ignore = "signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    assert lines("SIGHUP", ignore) == ["went on", "told to end", "ended"]


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGHUP")
def test_a_closed_terminal_ends_it_and_its_second_signal_does_not_hurry() -> None:
    heard = "signal.signal(signal.SIGHUP, signal.SIG_DFL)"  # also where the tests run under nohup
    again = "os.kill(os.getpid(), signal.SIGHUP)"
    assert lines("SIGHUP", heard, again) == ["told to end", "ended"]


def test_a_second_ctrl_c_does_not_wait() -> None:
    handled = "signal.signal(signal.SIGINT, signal.default_int_handler)"  # as in a terminal
    assert lines("SIGINT", handled, "os.kill(os.getpid(), signal.SIGINT)") == ["told to end"]
