"""Engines over tiny models, in this process and over the pipe, for the tests of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from specdec.contract import (
    ChatEngine,
    ChatRequest,
    Event,
    Failed,
    Finished,
    Loaded,
    Message,
    NeverCancel,
    Sampling,
)
from tests.tiny import tiny_model

Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True)
class Folders:
    """A data folder and two tiny models of one tokenizer; the draft is the smaller one."""

    data: Path
    target: Path
    draft: Path


def make_folders(base: Path) -> Folders:
    target = tiny_model(base / "target", "llama", seed=1)
    draft = tiny_model(base / "draft", "llama", seed=1, num_hidden_layers=1)
    (base / "data").mkdir()
    return Folders(base / "data", target, draft)


def load(engine: ChatEngine, target: Path | str, draft: Path | str) -> Loaded:
    events = list(engine.load(str(target), str(draft)))
    assert isinstance(events[-1], Loaded), events[-1]
    assert not any(isinstance(e, Failed | Loaded) for e in events[:-1])
    return events[-1]


def ask(text: str, **rest: object) -> ChatRequest:
    settings = {"temperature": 0.8, "seed": 7, "max_tokens": 40}
    for name in list(rest):
        if name in Sampling.__dataclass_fields__:
            settings[name] = rest.pop(name)  # type: ignore[assignment]
    messages = rest.pop("messages", (Message("user", text),))
    return ChatRequest(messages, Sampling(**settings), **rest)  # type: ignore[arg-type]


def reply(engine: ChatEngine, request: ChatRequest) -> tuple[list[Event], Finished]:
    events = list(engine.stream(request, NeverCancel()))
    ends = [isinstance(e, Finished | Failed) for e in events]
    assert ends == [False] * (len(ends) - 1) + [True]
    last = events[-1]
    assert isinstance(last, Finished), last
    return events, last


def of_kind(events: Sequence[object], kind: type[Kind]) -> list[Kind]:
    return [event for event in events if isinstance(event, kind)]
