"""The engine behind a pipe: torch stays out, crashes become events, switches end the worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from specdec.contract import ErrorInfo, Failed, Finished, Loaded, NeverCancel, Notice, Round
from specdec.options import EngineOptions
from specdec.process import ProcessEngine
from tests.specdec.engines import Folders, ask, load, make_folders, of_kind, reply


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return make_folders(tmp_path_factory.mktemp("process"))


@pytest.fixture
def engine(folders: Folders) -> Iterator[ProcessEngine]:
    made = ProcessEngine(EngineOptions(folders.data, device="cpu", offline=True))
    load(made, folders.target, "ngram")
    yield made
    made.close()


def workers() -> list[psutil.Process]:
    found = psutil.Process().children(recursive=True)
    return [p for p in found if "spawn_main" in " ".join(p.cmdline())]


def test_a_killed_worker_fails_the_reply_and_the_next_message_restarts_it(
    engine: ProcessEngine,
) -> None:
    events = []
    for event in engine.stream(ask("go on", max_tokens=1500, temperature=1.0), NeverCancel()):
        events.append(event)
        if isinstance(event, Round) and len(of_kind(events, Round)) == 3:
            os.kill(workers()[0].pid, signal.SIGKILL)
    last = events[-1]
    assert isinstance(last, Failed)
    assert "ended with exit code -9" in last.error.message
    assert "again" in last.error.hint
    assert engine.status().state == "failed"
    events, finished = reply(engine, ask("are you back?"))
    assert "starting again" in of_kind(events, Notice)[0].text
    assert finished.ids
    assert engine.status().state == "ready"


def test_a_switch_ends_the_old_process_and_the_reply_in_it(
    engine: ProcessEngine, folders: Folders
) -> None:
    old = workers()[0]
    ended: list[object] = []
    running = threading.Event()

    def talk() -> None:
        for event in engine.stream(ask("x", max_tokens=1500, temperature=1.0), NeverCancel()):
            ended.append(event)
            running.set()

    thread = threading.Thread(target=talk)
    thread.start()
    assert running.wait(30)
    load(engine, folders.draft, "none")
    thread.join(10)
    assert isinstance(ended[-1], Failed | Finished)
    assert not old.is_running() or old.status() == psutil.STATUS_ZOMBIE
    assert len(workers()) == 1
    pair = engine.status().pair
    assert pair is not None
    assert pair.target.value == str(folders.draft)


def test_a_newer_load_supersedes_one_under_way(engine: ProcessEngine, folders: Folders) -> None:
    first: list[object] = []
    begun = threading.Event()

    def slow() -> None:
        for event in engine.load(str(folders.target), str(folders.draft)):
            first.append(event)
            begun.set()

    thread = threading.Thread(target=slow)
    thread.start()
    assert begun.wait(30)
    load(engine, folders.draft, "none")
    thread.join(30)
    assert isinstance(first[-1], Failed)
    assert "replaced" in first[-1].error.message or "meanwhile" in first[-1].error.message
    assert engine.status().state == "ready"
    assert len(workers()) == 1


def test_a_message_during_a_load_is_answered_after_it(folders: Folders) -> None:
    engine = ProcessEngine(EngineOptions(folders.data, device="cpu", offline=True))
    events = engine.load(str(folders.target), "ngram")
    next(events)
    said: list[object] = []
    thread = threading.Thread(
        target=lambda: said.extend(engine.stream(ask("early"), NeverCancel()))
    )
    thread.start()
    assert isinstance(list(events)[-1], Loaded)
    thread.join(30)
    assert isinstance(said[-1], Finished)
    engine.close()


def test_close_ends_the_worker_within_seconds_in_mid_answer(engine: ProcessEngine) -> None:
    stream = engine.stream(ask("x", max_tokens=1500, temperature=1.0), NeverCancel())
    for event in stream:
        if isinstance(event, Round):
            break
    worker = workers()[0]
    began = time.monotonic()
    engine.close()
    assert time.monotonic() - began < 4
    assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE
    assert isinstance(list(stream)[-1], Failed | Finished)


def test_a_worker_that_dies_unasked_is_not_called_ready(engine: ProcessEngine) -> None:
    workers()[0].kill()
    for _ in range(100):
        if engine.status().state != "ready":
            break
        time.sleep(0.02)
    status = engine.status()
    assert status.state == "failed"
    assert status.error is not None
    assert "process ended" in status.error.message


def test_unload_ends_the_process_and_a_message_loads_the_same_pair_again(
    engine: ProcessEngine, folders: Folders
) -> None:
    """The memory is the process's: it is gone with it."""
    held = sum(worker.memory_info().rss for worker in workers())
    assert held > 50_000_000
    engine.unload()
    assert workers() == []
    assert (engine.status().state, engine.status().pair) == ("unloaded", None)
    engine.unload()  # a second time changes nothing
    assert reply(engine, ask("are you back?"))[1].ids
    pair = engine.status().pair
    assert pair is not None
    assert (pair.target.value, pair.draft.value) == (str(folders.target), "ngram")
    assert pair.memory is not None
    assert pair.memory.weights > 0
    assert pair.memory.caches > 0
    assert pair.pace is not None
    assert len(pair.pace.score) == 8


def test_a_cancel_during_a_restart_ends_the_reply_and_not_the_load(engine: ProcessEngine) -> None:
    workers()[0].kill()
    flag, events = threading.Event(), list[object]()
    for _ in range(100):
        if engine.status().state == "failed":
            break
        time.sleep(0.02)
    for event in engine.stream(ask("x"), flag):
        events.append(event)
        if len(events) == 2:  # the notice, and the first phase of the load
            flag.set()
    last = events[-1]
    assert isinstance(last, Finished)
    assert last.reason == "cancelled"
    assert "starting again: " in of_kind(events, Notice)[1].text
    assert engine.status().state == "loading"
    assert isinstance(reply(engine, ask("and now?"))[1], Finished)
    assert len(workers()) == 1


@pytest.mark.parametrize("read", [1, 3])
def test_a_load_that_is_dropped_leaves_no_worker(
    engine: ProcessEngine, folders: Folders, read: int
) -> None:
    """Read to the first event, or until the new process is at work: neither old nor new stays."""
    events = engine.load(str(folders.draft), "none")
    for _ in range(read):
        next(events)
    events.close()  # type: ignore[attr-defined]
    assert workers() == []
    status = engine.status()
    assert status.state == "failed"
    assert status.error is not None
    assert "stopped" in status.error.message


def test_a_process_that_does_not_start_is_an_event(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(options: EngineOptions) -> Any:
        raise OSError("no more processes")

    monkeypatch.setattr("specdec.process.Worker", refuse)
    engine = ProcessEngine(EngineOptions(folders.data, device="cpu", offline=True))
    last = list(engine.load(str(folders.target), "none"))[-1]
    assert isinstance(last, Failed)
    assert "no more processes" in last.error.message
    assert engine.status().state == "failed"
    assert isinstance(list(engine.stream(ask("x"), NeverCancel()))[-1], Failed)


def test_none_means_choose_whatever_was_loaded_before(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[object, ...]] = []

    class Recording:
        alive = True

        def __init__(self, options: EngineOptions) -> None:
            assert options.data_dir == folders.data

        def call(self, method: str, args: tuple[object, ...], cancel: object) -> Iterator[Any]:
            asked.append((method, *args))
            yield Failed(ErrorInfo("LoadError", "no"))

        def end(self) -> None:
            self.alive = False

    monkeypatch.setattr("specdec.process.Worker", Recording)
    engine = ProcessEngine(EngineOptions(folders.data))
    for pair in (("a", "b"), (None, "b"), (None, None)):
        assert isinstance(list(engine.load(*pair))[-1], Failed)
    assert asked == [("load", "a", "b"), ("load", None, "b"), ("load", None, None)]


def test_after_close_nothing_is_started_any_more(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[EngineOptions] = []
    monkeypatch.setattr("specdec.process.Worker", made.append)
    engine = ProcessEngine(EngineOptions(folders.data, device="cpu", offline=True))
    engine.close()
    said = list(engine.stream(ask("x"), NeverCancel()))
    assert [getattr(event, "reason", None) for event in said] == ["cancelled"]
    last = list(engine.load(str(folders.target), "none"))[-1]
    assert isinstance(last, Failed)
    assert last.error.message == "The engine was closed."
    assert made == []


def test_the_worker_dies_with_its_parent(folders: Folders) -> None:
    code = f"""
import os, sys, time
from pathlib import Path
from specdec.options import EngineOptions
from specdec.process import ProcessEngine
if __name__ == "__main__":
    engine = ProcessEngine(EngineOptions(Path({str(folders.data)!r}), device="cpu", offline=True))
    for event in engine.load({str(folders.target)!r}, "none"):
        pass
    print(engine._worker.process.pid, "torch" in sys.modules, flush=True)
    time.sleep(60)
"""
    script = folders.data / "parent.py"
    script.write_text(code)
    parent = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )
    assert parent.stdout is not None
    pid, has_torch = parent.stdout.readline().split()
    assert has_torch == "False"
    parent.kill()
    parent.wait()
    for _ in range(50):
        if not psutil.pid_exists(int(pid)):
            break
        time.sleep(0.1)
    else:
        pytest.fail("the worker outlived its parent")
