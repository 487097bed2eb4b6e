"""Replies for other programs, below HTTP: another model meanwhile, and a caller that went away."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from app.errands import LINGER_S, Errands
from app.loader import Loader
from specdec.contract import ChatRequest, Message, Sampling
from specdec.errors import UnknownModelError
from tests.app.desk_kit import Clock, Kit, finish, held, until
from tests.app.fake_models import make_pair

ASKED = ChatRequest((Message("user", "hello"),), Sampling(max_tokens=40))
MODEL = "smollm2-135m-instruct"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def errands(kit: Kit, clock: Clock) -> Errands:
    finish(kit.controller.start())
    controller = kit.controller
    loader = Loader(kit.engine, kit.settings)
    return Errands(kit.engine, loader, controller._line, controller.live, controller.guests, clock)


def test_a_reply_is_never_made_by_a_model_that_came_while_it_waited(
    kit: Kit, errands: Errands
) -> None:
    go = held(kit)
    before = errands.put(MODEL, ASKED)
    until(lambda: kit.engine.running == 1)
    waiting = errands.put(MODEL, ASKED)
    kit.engine._status = replace(kit.engine._status, pair=make_pair("other", "ngram", "fast", True))
    go.set()
    assert finish(before.job).error is None
    error = finish(waiting.job).error
    assert error is not None
    assert "'smollm2-135m-instruct' is not loaded" in str(error)
    with pytest.raises(UnknownModelError):
        errands.put(MODEL, ASKED)
    assert len(kit.engine.requests) == 1


def test_a_reply_that_nobody_looks_at_ends(kit: Kit, errands: Errands, clock: Clock) -> None:
    go = held(kit)
    seen, forgotten = errands.put(MODEL, ASKED), errands.put(MODEL, ASKED)
    until(lambda: kit.engine.running == 1)
    clock.now = LINGER_S - 1

    async def look() -> None:
        async for _ in errands.watch(seen):
            break

    asyncio.run(look())
    clock.now = LINGER_S + 1
    go.set()
    assert finish(seen.job).reason == "length"
    assert finish(forgotten.job).reason == "cancelled"
