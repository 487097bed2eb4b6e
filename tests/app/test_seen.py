"""What was shown or hidden is said again while more comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import gradio as gr

from app.ui.seen import lasting, seen

STOP, SEND, LIVE, BOX = "stop", "send", "live", "box"


class Handlers:
    @lasting
    async def answer(self, name: str) -> AsyncIterator[dict[Any, Any]]:
        yield {STOP: seen(True), SEND: seen(False), BOX: gr.update(value="", visible=True)}
        yield {LIVE: name}
        yield {LIVE: gr.skip()}
        yield {STOP: seen(False)}
        yield {LIVE: "end"}

    @lasting
    async def silent(self) -> AsyncIterator[dict[Any, Any]]:
        for _ in range(0):
            yield {}


def test_each_update_says_again_what_earlier_ones_showed() -> None:
    async def all_of() -> list[dict[Any, Any]]:
        return [update async for update in Handlers().answer("one")]

    first, second, skipped, fourth, last = asyncio.run(all_of())
    assert first[BOX]["value"] == ""
    assert second == {STOP: seen(True), SEND: seen(False), LIVE: "one"}  # a value is said once
    assert skipped == {LIVE: gr.skip()}  # another conversation is on the page
    assert fourth == {STOP: seen(False), SEND: seen(False)}
    assert last == {STOP: seen(False), SEND: seen(False), LIVE: "end"}


def test_a_handler_with_nothing_to_say_skips() -> None:
    async def all_of() -> list[dict[Any, Any]]:
        return [update async for update in Handlers().silent()]

    assert asyncio.run(all_of()) == [gr.skip()]
