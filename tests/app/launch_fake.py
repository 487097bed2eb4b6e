"""Runs the real program over a fake engine that owns a real child process. Run by the tests.

Usage: python -m tests.app.launch_fake LOAD_S TOKEN_S [launch options]
"""

from __future__ import annotations

import multiprocessing
import sys
import time

from app.options import parse
from app.run import run
from specdec.errors import SpecdecError
from specdec.options import EngineOptions
from tests.app.fake_engine import FakeEngine, Script


class StubbornEngine(FakeEngine):
    """Its worker ignores everything but a kill, and it says so with its process id."""

    def __init__(self, script: Script) -> None:
        super().__init__(script)
        context = multiprocessing.get_context("spawn")
        self.child = context.Process(target=_stubborn, daemon=True)
        self.child.start()
        print(f"engine process {self.child.pid}", flush=True)

    def close(self) -> None:
        """Hangs: the program must end all the same."""
        time.sleep(60)


def _stubborn() -> None:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join(600)  # a test may kill the parent and wants nothing left behind


def main() -> int:
    script = Script(load_s=float(sys.argv[1]), token_s=float(sys.argv[2]))

    def make(options: EngineOptions) -> StubbornEngine:
        return StubbornEngine(script)

    try:
        return run(parse(sys.argv[3:]), make, lambda text: print(text, flush=True))
    except SpecdecError as error:
        print(f"launch.py: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
