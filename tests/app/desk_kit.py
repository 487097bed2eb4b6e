"""What the tests of the controller share: one over the fake engine and a real history."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from app.controller import Controller
from app.history import History
from app.line import Job
from app.session import Session
from app.settings import SettingsFile
from specdec.contract import Sampling
from tests.app.fake_engine import FakeEngine, Script


class Clock:
    """Seconds that pass when the test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Kit:
    """A controller with its parts in reach. Closed by the fixture that makes it."""

    def __init__(self, folder: Path, script: Script | None = None, linger: float = 60.0) -> None:
        self.engine = FakeEngine(script)
        self.history = History(folder / "history.db")
        self.settings = SettingsFile(folder / "settings.json")
        self.controller = Controller(self.engine, self.history, self.settings, linger)

    @property
    def script(self) -> Script:
        return self.engine.script

    def owner(self, key: str = "tab") -> Session:
        return self.controller.session(key, "owner")

    def guest(self, key: str = "visitor") -> Session:
        return self.controller.session(key, "guest")

    def guest_with_reply(self, key: str = "visitor") -> Session:
        """A guest whose message 1 is answered by message 2."""
        guest = self.guest(key)
        request = {"seed": 1, "sampling": asdict(Sampling()), "system": "", "dtype": "bfloat16"}
        request |= {"target": "smollm2-135m-instruct", "device": "cpu"}
        _, reply = guest.passing.add_turn("hello", {})
        guest.passing.update(reply.id, "hi", (1, 2), "complete", {}, request)
        return guest

    def close(self) -> None:
        if self.script.hold is not None:
            self.script.hold.set()
        self.controller.close()
        self.history.close()


def held(kit: Kit) -> threading.Event:
    """Replies now stop after each round until the event is set."""
    kit.script.hold = threading.Event()
    return kit.script.hold


def finish(job: Job[Any], timeout: float = 10.0) -> Any:
    """The last snapshot of a job."""
    assert job.done.wait(timeout), f"still {job.snapshot}"
    return job.snapshot


def until(true: Callable[[], Any], timeout: float = 5.0) -> None:
    """Wait until something holds."""
    end = time.monotonic() + timeout
    while not true():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.005)
