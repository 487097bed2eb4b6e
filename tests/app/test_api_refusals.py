"""What `/v1` refuses, and how it says so to the real `openai` client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import openai
import pytest

from app.desk import Options
from app.line import WAITING
from app.login import COOKIE
from specdec.contract import ErrorInfo
from tests.app.api_kit import ASK, Api
from tests.app.desk_kit import finish, held, until
from tests.app.fake_engine import Script


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"response_format": {"type": "json_object"}}, "response_format.type"),
        ({"extra_body": {"mirostat": 2}}, "mirostat"),
        ({"temperature": 9}, None),
        ({"max_tokens": 0}, "max_tokens"),
        ({"messages": [{"role": "user", "content": "x", "name": "Ann"}]}, "messages.0.name"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "1"}]}, "messages.0.role"),
    ],
)
def test_what_is_not_done_here_is_refused_by_name(
    api: Api, more: dict[str, Any], field: str | None
) -> None:
    before = len(api.kit.engine.requests)
    with pytest.raises(openai.BadRequestError) as caught:
        api.client().chat.completions.create(**{**ASK, **more})
    assert caught.value.param == field
    assert (field or "temperature").split(".")[-1] in str(caught.value)
    assert len(api.kit.engine.requests) == before


@pytest.mark.parametrize("body", ["", "{", "[]", '{"model": 3}', "null"])
def test_a_body_that_is_no_request_is_refused(api: Api, body: str) -> None:
    answer = httpx.post(f"{api.url}/v1/chat/completions", content=body, timeout=20)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_harmless_fields_are_taken(api: Api) -> None:
    answer = api.client().chat.completions.create(**ASK, user="me", n=1, tools=[], store=False)
    assert answer.choices[0].message.content


def test_a_reply_that_cannot_begin_has_a_status(serve_api: Callable[..., Api]) -> None:
    api = serve_api(Script(fail_start=ErrorInfo("PromptError", "Too long.", "Shorten it.")))
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError, match=r"Too long. Shorten it."):
            api.client().chat.completions.create(**ASK, stream=stream)


def test_a_reply_that_breaks_off_says_so(serve_api: Callable[..., Api]) -> None:
    api = serve_api(Script(fail_after=6))
    with pytest.raises(openai.InternalServerError, match="out of memory"):
        api.client().chat.completions.create(**ASK)
    api.kit.script.token_s = 0.05  # the failure comes after the first token
    seen = list[str]()

    def read() -> None:
        for chunk in api.client().chat.completions.create(**ASK, stream=True):
            seen.append(chunk.choices[0].delta.content or "")

    with pytest.raises(openai.APIError, match="out of memory"):
        read()
    assert "".join(seen)


def test_a_conversation_of_which_turns_would_be_left_out_is_refused(
    serve_api: Callable[..., Api],
) -> None:
    api = serve_api(Script(dropped_turns=2, token_s=0.05))
    with pytest.raises(openai.BadRequestError, match="oldest 2 turns do not fit"):
        api.client().chat.completions.create(**ASK)
    until(lambda: api.kit.engine.running == 0)


def test_too_many_at_once_are_told_to_come_again(serve_api: Callable[..., Api]) -> None:
    api = serve_api(Script(token_s=0.01))
    go = held(api.kit)
    desk = api.kit.controller.desk
    first = desk.send(api.kit.owner("first"), "x", Options())
    until(lambda: api.kit.engine.running == 1)
    for i in range(WAITING):
        desk.send(api.kit.owner(f"guest {i}"), "x", Options())
    with pytest.raises(openai.RateLimitError, match="already wait"):
        api.client().chat.completions.create(**ASK)
    go.set()
    assert finish(first).state == "complete"


def test_a_shared_server_wants_the_key_and_the_key_opens_nothing_else(
    serve_api: Callable[..., Api],
) -> None:
    api = serve_api(shared=True)
    assert api.client().chat.completions.create(**ASK).choices[0].message.content
    for wrong in ("none", api.key[:-1], f"{api.key}x"):
        with pytest.raises(openai.AuthenticationError, match="API key"):
            api.client(wrong).models.list()
    bearer = {"authorization": f"Bearer {api.key}"}
    for path in ("/", "/health", "/config", "/v1", "/v1/", "/v1/embeddings", "/v1/models/../../"):
        answer = httpx.get(api.url + path, headers=bearer, timeout=20)
        assert answer.status_code in (303, 401), path


def test_a_login_does_not_open_the_api(serve_api: Callable[..., Api]) -> None:
    api = serve_api(shared=True)
    for login in api.access.logins:
        form = {"username": login.user, "password": login.password}
        with httpx.Client(base_url=api.url, timeout=20) as client:
            assert client.post("/login", data=form).status_code == 303
            assert client.get("/health").status_code == 200
            assert client.get("/v1/models").status_code == 401
    answer = httpx.get(f"{api.url}/v1/models", cookies={COOKIE: api.key}, timeout=20)
    assert answer.status_code == 401
    assert answer.json()["error"]["type"] == "authentication_error"


def test_another_site_cannot_ask(api: Api) -> None:
    """A page in the user's browser could else spend the machine, or read what it says."""
    url = f"{api.url}/v1/chat/completions"
    evil = {"origin": "http://evil.example"}
    assert httpx.post(url, json=ASK, headers=evil, timeout=20).status_code == 403
    rebound = {"host": "evil.example"}
    assert httpx.post(url, json=ASK, headers=rebound, timeout=20).status_code == 421
