"""Run as a process: answers one message after another and prints what it has shown of each."""

from __future__ import annotations

import sys
from pathlib import Path

from app.desk import Options
from specdec.contract import Sampling
from tests.app.desk_kit import Kit, finish
from tests.app.fake_engine import Script


def main(folder: Path) -> None:
    kit = Kit(folder, Script(token_s=0.002))
    finish(kit.controller.start())
    tab = kit.owner()
    for number in range(10_000):
        if number % 3 == 0:
            kit.controller.new(tab)
        job = kit.controller.desk.send(tab, f"message {number}", Options(Sampling(seed=number)))
        seen = 0
        while not job.done.wait(0.005):
            if len(text := job.snapshot.text) > seen:
                seen = len(text)
                print(tab.conversation, number, seen, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
