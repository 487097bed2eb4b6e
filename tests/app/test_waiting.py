"""What waiting costs: a reply that says nothing for a while must not cost a core."""

from __future__ import annotations

import asyncio
import time

from app.desk import Options
from tests.app.desk_kit import Kit, finish, held, until


def test_waiting_for_a_reply_costs_next_to_nothing(kit: Kit) -> None:
    """B16: page, worker and engine all wait here. Busy polling would take the whole second."""
    gate = held(kit)
    job = kit.controller.desk.send(kit.owner(), "hello", Options())
    until(lambda: job.snapshot.text)

    async def look() -> None:
        async for _ in kit.controller.watch(job):
            pass

    async def one_second() -> float:
        watching = [asyncio.create_task(look()) for _ in range(5)]
        await asyncio.sleep(0.1)
        begun = time.process_time()
        await asyncio.sleep(1.0)
        spent = time.process_time() - begun
        gate.set()
        await asyncio.gather(*watching)
        return spent

    assert asyncio.run(one_second()) < 0.4
    finish(job)
