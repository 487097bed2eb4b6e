"""`/v1` over the fake engine, asked by the real `openai` client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import openai
import pytest

from app.desk import Options
from tests.app.api_kit import ASK, MODEL, Api
from tests.app.desk_kit import finish, held, until
from tests.app.fake_engine import CODE, PROSE, Script


def test_a_whole_answer_has_text_usage_and_draft_counts(serve_api: Callable[..., Api]) -> None:
    api = serve_api()
    answer = api.client().chat.completions.create(**ASK, seed=1, temperature=0)
    (choice,) = answer.choices
    assert choice.message.role == "assistant"
    assert choice.message.content == PROSE.replace("Speculative", "Exact") + CODE
    assert choice.finish_reason == "stop"
    assert answer.model == MODEL
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    timings = answer.model_extra["timings"]  # type: ignore[index]
    assert timings["predicted_n"] == answer.usage.completion_tokens
    assert timings["draft_n"] > timings["draft_n_accepted"] > 0
    assert answer.model_extra["specdec"]["seed"] == 1  # type: ignore[index]
    assert api.kit.history.conversations() == []


def test_a_stream_gives_the_same_words_and_ends_with_counts(serve_api: Callable[..., Api]) -> None:
    api = serve_api(Script(token_s=0.02))
    client = api.client()
    whole = client.chat.completions.create(**ASK, seed=1).choices[0].message.content
    chunks = list(client.chat.completions.create(**ASK, seed=1, stream=True))
    assert chunks[0].choices[0].delta.role == "assistant"
    pieces = [chunk.choices[0].delta.content or "" for chunk in chunks]
    assert "".join(pieces) == whole
    assert sum(bool(piece) for piece in pieces) > 2
    assert [c.choices[0].finish_reason for c in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    assert chunks[-1].model_extra["timings"]["draft_n"] > 0  # type: ignore[index]
    assert all(chunk.usage is None for chunk in chunks)
    *_, last = client.chat.completions.create(
        **ASK, seed=1, stream=True, stream_options={"include_usage": True}
    )
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.completion_tokens > 0


def test_settings_reach_the_engine(serve_api: Callable[..., Api]) -> None:
    api = serve_api()
    answer = api.client().chat.completions.create(
        model=MODEL,
        messages=[
            {"role": "developer", "content": "Be kind"},
            {
                "role": "user",
                "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            },
        ],
        max_completion_tokens=5,
        top_p=0.5,
        stop=["x"],
        seed=7,
        presence_penalty=0.5,
        extra_body={"top_k": 3, "mode": "standard", "k": 2},
    )
    assert answer.choices[0].finish_reason == "length"
    (request,) = api.kit.engine.requests
    assert [(m.role, m.content) for m in request.messages] == [
        ("system", "Be kind"),
        ("user", "ab"),
    ]
    law = request.sampling
    assert (law.temperature, law.top_p, law.top_k, law.seed) == (1.0, 0.5, 3, 7)
    assert (law.max_tokens, law.stop, law.presence_penalty) == (5, ("x",), 0.5)
    assert (request.mode, request.k, request.raw, request.remember) == ("standard", 2, False, False)


@pytest.mark.parametrize("stream", [False, True])
def test_text_is_gone_on_with_as_it_is(serve_api: Callable[..., Api], stream: bool) -> None:
    api = serve_api(Script(reply="so it went"))
    answer = api.client().completions.create(model=MODEL, prompt="Once", stream=stream)
    if stream:
        assert "".join(chunk.choices[0].text for chunk in answer) == "so it went"
    else:
        assert answer.choices[0].text == "so it went"
    (request,) = api.kit.engine.requests
    assert request.raw
    assert [m.content for m in request.messages] == ["Once"]


def test_a_reply_can_be_sent_back_as_it_came(serve_api: Callable[..., Api]) -> None:
    api = serve_api()
    messages: list[Any] = [{"role": "user", "content": "hello"}]
    first = api.client().chat.completions.create(model=MODEL, messages=messages)
    messages += [first.choices[0].message, {"role": "user", "content": "more"}]
    api.client().chat.completions.create(
        model=MODEL, messages=messages, extra_body={"top_k": None, "tool_choice": None}
    )
    said = [message.role for message in api.kit.engine.requests[-1].messages]
    assert said == ["user", "assistant", "user"]


def test_the_loaded_target_is_the_model_there_is(api: Api) -> None:
    client = api.client()
    (model,) = client.models.list().data
    assert model.id == MODEL
    assert model.model_extra["draft"] == "ngram"  # type: ignore[index]
    assert client.models.retrieve(MODEL).id == MODEL
    with pytest.raises(openai.NotFoundError, match="is not loaded"):
        client.models.retrieve("gpt-4o")
    with pytest.raises(openai.NotFoundError, match=MODEL):
        client.chat.completions.create(model="gpt-4o", messages=ASK["messages"])


def test_it_waits_in_the_queue_of_the_page(serve_api: Callable[..., Api]) -> None:
    api = serve_api()
    go = held(api.kit)
    first = api.kit.controller.desk.send(api.kit.owner(), "page", Options())
    until(lambda: api.kit.engine.running == 1)
    with api.client().with_options(timeout=0.5) as client, pytest.raises(openai.APITimeoutError):
        client.chat.completions.create(**ASK)
    until(lambda: not api.kit.controller._line._waiting)
    go.set()
    finish(first)
    assert api.client().chat.completions.create(**ASK).choices[0].message.content
    said = [request.messages[-1].content for request in api.kit.engine.requests]
    assert said == ["page", "hello"]  # the one that hung up while it waited was never begun


@pytest.mark.parametrize("stream", [False, True])
def test_hanging_up_ends_the_reply(serve_api: Callable[..., Api], stream: bool) -> None:
    api = serve_api(Script(token_s=0.05, reply="word " * 2000))
    if stream:
        answer = api.client().chat.completions.create(**ASK, stream=True)
        next(iter(answer))
        answer.close()
    else:
        with pytest.raises(openai.APITimeoutError):
            api.client(timeout=0.5).chat.completions.create(**ASK)
    until(lambda: api.kit.engine.running == 0, 4)
