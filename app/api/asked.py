"""What another program may ask, and the request it comes to. Knows schemas; no routes, no engine.

A field that would change the reply and is not done here is refused, never ignored.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from app.api.refusals import BadFieldError
from specdec.contract import MAX_K, ChatRequest, Message, Mode, Role, Rule, Sampling

UNLIMITED = 2**31 - 1
"""Tokens of a reply where no limit is asked: it ends where the context does."""

CONVERSATION = "api"
"""All requests share one cached prefix: a client that sends its whole chat again is read once."""


class _Strict(BaseModel):
    """Unknown fields are refused; null is as good as nothing, which clients send a lot of."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        return {name: value for name, value in data.items() if value is not None}


class Part(_Strict):
    """A piece of a message; only text is understood."""

    type: Literal["text"]
    text: str


class Turn(_Strict):
    """One message; a reply may come back as it was sent, with its empty fields."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[Part]
    tool_calls: Annotated[list[Any], Field(max_length=0)] | None = None
    annotations: Annotated[list[Any], Field(max_length=0)] | None = None

    def message(self) -> Message:
        """As the engine takes it."""
        role: Role = "system" if self.role == "developer" else self.role
        if isinstance(self.content, str):
            return Message(role, self.content)
        return Message(role, "".join(part.text for part in self.content))


class Format(_Strict):
    """Plain text is the only form of a reply."""

    type: Literal["text"]


class StreamOptions(_Strict):
    include_usage: bool = False
    include_obfuscation: Literal[False] | None = None


class _Asked(_Strict):
    """What both kinds of request have. Beyond OpenAI's: sampling as the page has it, and how the
    reply is decoded (`mode`, `rule`, `k`)."""

    model: str
    stream: bool = False
    stream_options: StreamOptions | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    seed: int | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    stop: str | list[str] | None = None
    n: Literal[1] | None = None
    logit_bias: Annotated[dict[str, float], Field(max_length=0)] | None = None
    mode: Mode = "speculative"
    rule: Rule = "match"
    k: Annotated[int, Field(ge=0, le=MAX_K)] | None = None
    # these change no word of the reply
    user: Any = None
    metadata: Any = None
    store: Any = None
    service_tier: Any = None
    safety_identifier: Any = None
    prompt_cache_key: Any = None

    @property
    def with_usage(self) -> bool:
        """Whether a stream ends with a chunk of counts."""
        return self.stream_options is not None and self.stream_options.include_usage

    def _limit(self) -> int | None:
        return self.max_tokens

    def sampling(self) -> Sampling:
        """OpenAI's defaults where nothing is asked. Raises SettingError naming the setting."""
        stop = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return Sampling(
            temperature=1.0 if self.temperature is None else self.temperature,
            top_k=self.top_k,
            top_p=1.0 if self.top_p is None else self.top_p,
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
            frequency_penalty=self.frequency_penalty or 0.0,
            presence_penalty=self.presence_penalty or 0.0,
            seed=self.seed,
            max_tokens=self._limit() or UNLIMITED,
            stop=tuple(stop),
        )

    def _request(self, messages: tuple[Message, ...], raw: bool) -> ChatRequest:
        return ChatRequest(
            messages,
            self.sampling(),
            self.mode,
            self.rule,
            self.k,
            conversation=CONVERSATION,
            raw=raw,
        )


class ChatAsked(_Asked):
    """The body of `POST /v1/chat/completions`."""

    messages: Annotated[list[Turn], Field(min_length=1)]
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    response_format: Format | None = None
    tools: Annotated[list[Any], Field(max_length=0)] | None = None
    logprobs: Literal[False] | None = None

    def _limit(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens

    def request(self) -> ChatRequest:
        """Raises SettingError."""
        return self._request(tuple(turn.message() for turn in self.messages), raw=False)


class TextAsked(_Asked):
    """The body of `POST /v1/completions`: text to go on with as it is, without a template."""

    prompt: str | list[str]
    echo: Literal[False] | None = None
    best_of: Literal[1] | None = None
    suffix: Literal[""] | None = None

    def request(self) -> ChatRequest:
        """Raises SettingError for more than one prompt."""
        prompts = [self.prompt] if isinstance(self.prompt, str) else self.prompt
        if len(prompts) != 1:
            raise BadFieldError("prompt", f"{len(prompts)} prompts came.", "Send one a request.")
        return self._request((Message("user", prompts[0]),), raw=True)
