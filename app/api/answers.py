"""A reply as OpenAI's objects, whole or in chunks, with llama.cpp's `timings`. Pure functions."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass, field
from typing import Any, Literal

from app.live import Live
from specdec.contract import FinishReason
from specdec.metrics import Metrics

Kind = Literal["chat", "text"]

REASONS: dict[FinishReason, str] = {
    "end": "stop",
    "stop": "stop",
    "length": "length",
    "context": "length",
}
DONE = "data: [DONE]\n\n"
NAMES: dict[Kind, tuple[str, str, str]] = {
    "chat": ("chatcmpl-", "chat.completion", "chat.completion.chunk"),
    "text": ("cmpl-", "text_completion", "text_completion"),
}


def usage(metrics: Metrics) -> dict[str, Any]:
    """Tokens of prompt and reply."""
    return {
        "prompt_tokens": metrics.prompt_tokens,
        "completion_tokens": metrics.new_tokens,
        "total_tokens": metrics.prompt_tokens + metrics.new_tokens,
        "prompt_tokens_details": {"cached_tokens": metrics.reused_tokens},
    }


def timings(metrics: Metrics) -> dict[str, Any]:
    """By llama.cpp's names. `prompt_ms` goes to the first token, `predicted_ms` from there on.

    `predicted_per_second` counts what came after the first round, as the page does.
    """
    read = metrics.prompt_tokens - metrics.reused_tokens
    return {
        "cache_n": metrics.reused_tokens,
        "prompt_n": read,
        "prompt_ms": round(1000 * metrics.first_token_s, 3),
        "prompt_per_second": _rate(read, metrics.first_token_s),
        "predicted_n": metrics.new_tokens,
        "predicted_ms": round(1000 * metrics.decode_s, 3),
        "predicted_per_second": round(metrics.tok_s, 3),
        "draft_n": metrics.drafted,
        "draft_n_accepted": metrics.accepted,
    }


def made(live: Live) -> dict[str, Any]:
    """How it was decoded, beyond what the two others tell."""
    started = live.started
    if started is None:
        return {}
    return {
        "mode": started.mode,
        "runner": started.runner,
        "exact": started.exact,
        "seed": started.seed,
        "rounds": live.metrics.rounds,
        "notices": list(live.notices),
    }


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer's identity; its methods make the objects that are sent."""

    kind: Kind
    model: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, live: Live) -> dict[str, Any]:
        """The answer in one piece. `live` is done and has no error."""
        choice: dict[str, Any] = {"index": 0, "finish_reason": _reason(live), "logprobs": None}
        if self.kind == "chat":
            choice["message"] = {"role": "assistant", "content": live.text, "refusal": None}
        else:
            choice["text"] = live.text
        counts = {"usage": usage(live.metrics), "timings": timings(live.metrics)}
        return {**self._frame(1), "choices": [choice], **counts, "specdec": made(live)}

    def opening(self) -> str:
        """The first line of a stream: who speaks. Text has none."""
        return event(self._chunk({"role": "assistant", "content": ""}))

    def piece(self, text: str) -> str:
        """A line with more text."""
        return event(self._chunk({"content": text}, text))

    def ending(self, live: Live, with_usage: bool) -> str:
        """The lines that end a stream: the reason, counts where they were asked for, the mark."""
        last = {**self._chunk({}, "", _reason(live)), "timings": timings(live.metrics)}
        lines = event({**last, "specdec": made(live)})
        if with_usage:
            lines += event(
                {**self._frame(2), "choices": [], "usage": usage(live.metrics)},
            )
        return lines + DONE

    def _chunk(
        self, delta: dict[str, str], text: str = "", reason: str | None = None
    ) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": 0, "finish_reason": reason, "logprobs": None}
        if self.kind == "chat":
            choice["delta"] = delta
        else:
            choice["text"] = text
        return {**self._frame(2), "choices": [choice]}

    def _frame(self, form: Literal[1, 2]) -> dict[str, Any]:
        names = NAMES[self.kind]
        return {
            "id": names[0] + self.id,
            "object": names[form],
            "created": self.created,
            "model": self.model,
        }


def event(row: dict[str, Any]) -> str:
    """One line of a stream."""
    return f"data: {json.dumps(row)}\n\n"


def _reason(live: Live) -> str | None:
    return REASONS.get(live.reason) if live.reason else None


def _rate(count: int, seconds: float) -> float:
    return round(count / seconds, 3) if seconds > 0 else 0.0
