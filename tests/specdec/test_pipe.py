"""One spawned worker: whatever it started ends with it, whether it listens or not."""

from __future__ import annotations

import subprocess
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from types import FunctionType

import psutil
import pytest

from specdec.options import EngineOptions
from specdec.pipe import Worker
from specdec.worker import serve


def busy(options: EngineOptions) -> None:
    """Start a child that would outlive a worker, as pip does in the middle of a fetch."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
    (options.data_dir / "note").write_text(str(child.pid))
    (options.data_dir / "note").rename(options.data_dir / "child")


def fetching(pipe: Connection, options: EngineOptions) -> None:
    busy(options)
    serve(pipe, options)


def stuck(pipe: Connection, options: EngineOptions) -> None:
    busy(options)
    time.sleep(120)


def started(folder: Path) -> psutil.Process:
    for _ in range(200):
        if (folder / "child").exists():
            return psutil.Process(int((folder / "child").read_text()))
        time.sleep(0.05)
    pytest.fail("the worker started no child")


@pytest.mark.parametrize("entry", [fetching, stuck])
def test_what_a_worker_started_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: FunctionType
) -> None:
    monkeypatch.setattr("specdec.pipe.serve", entry)
    worker = Worker(EngineOptions(tmp_path))
    child = started(tmp_path)
    worker.end()
    try:
        child.wait(5)
    except psutil.TimeoutExpired:
        child.kill()
        pytest.fail("the child outlived its worker")
    assert not worker.process.is_alive()


def test_the_log_before_is_kept(tmp_path: Path) -> None:
    """A crash is restarted from: what the old process said last must still be there."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "engine.log").write_text("Segmentation fault")
    (tmp_path / "logs" / "engine.log.1").write_text("older still")
    worker = Worker(EngineOptions(tmp_path))
    worker.end()
    assert (tmp_path / "logs" / "engine.log.1").read_text() == "Segmentation fault"
    assert "Segmentation" not in (tmp_path / "logs" / "engine.log").read_text()
