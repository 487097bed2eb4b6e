"""What goes in: messages, sampling settings, one request. Part of the contract."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from specdec.errors import SettingError

Role = Literal["system", "user", "assistant"]
Mode = Literal["speculative", "standard"]
Rule = Literal["match", "reject"]
Runner = Literal["auto", "static", "fast"]

MAX_K = 7
"""The longest draft a round may hold: one scoring call reads 8 rows, the draft and one more."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn. `ids` are a reply's own token ids (without the end id): kept, never re-encoded."""

    role: Role
    content: str
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Sampling:
    """What shapes the law a token is drawn from. A value that is off changes nothing.

    temperature 0 is greedy; top_k 0, top_p 1 and min_p 0 are off; penalties 1, 0, 0 are off.
    seed None means a fresh one per reply, reported in `Started.seed`.
    """

    temperature: float = 0.7
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    seed: int | None = None
    max_tokens: int = 1024
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises SettingError naming the field, its value and its range."""
        _within("temperature", self.temperature, 0, 5)
        _within("top-k", self.top_k, 0, math.inf)
        _within("top-p", self.top_p, 0, 1, open_low=True)
        _within("min-p", self.min_p, 0, 1)
        _within("repetition penalty", self.repetition_penalty, 0, 10, open_low=True)
        _within("frequency penalty", self.frequency_penalty, -2, 2)
        _within("presence penalty", self.presence_penalty, -2, 2)
        _within("max tokens", self.max_tokens, 1, math.inf)
        if self.seed is not None:
            _within("seed", self.seed, 0, 2**63 - 1)
        if any(not s for s in self.stop):
            raise SettingError("A stop string is empty.", "Remove it, or give it some text.")


def prompt_limit(context: int, max_tokens: int) -> int:
    """Tokens a prompt may have: a reply keeps its room, at most a quarter of the context."""
    return context - max(1, min(max_tokens, context // 4))


def _within(name: str, value: float, low: float, high: float, open_low: bool = False) -> None:
    ok = (low < value if open_low else low <= value) and value <= high
    if not ok or math.isnan(value):
        edge = f"above {low:g}" if open_low else f"at least {low:g}"
        top = "" if high == math.inf else f" and at most {high:g}"
        raise SettingError(f"{name} is {value:g}.", f"It must be {edge}{top}.")


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One reply to make. `k` is an upper limit on the draft length; None leaves it to the engine.

    `conversation` names whose cached prefix may be reused. `fresh` starts from an empty cache, as
    the race and Verify do. `runner` picks the scoring path; auto is what was measured at load.
    `remember` lets n-gram drafts read the earlier replies of this machine's owner, and keeps this
    one for later: never for a guest, and never where `fresh` is asked. `raw`: the one message is
    text to go on with as it is, and no template is used.

    `begun`: the reply's first ids, made before; it goes on from exactly these, as though it had
    never been stopped, and `max_tokens` counts what is added. `prompt` is what `Started` said when
    it began: another prompt would have had another reply, so it is refused ("" is not looked at).
    """

    messages: tuple[Message, ...]
    sampling: Sampling = field(default_factory=Sampling)
    mode: Mode = "speculative"
    rule: Rule = "match"
    k: int | None = None
    conversation: str = ""
    fresh: bool = False
    runner: Runner = "auto"
    remember: bool = False
    raw: bool = False
    begun: tuple[int, ...] = ()
    prompt: str = ""

    def __post_init__(self) -> None:
        """Raises SettingError for an unknown mode, rule or runner, k outside 0..MAX_K, or raw text
        in several messages."""
        for name, value, known in (
            ("mode", self.mode, ("speculative", "standard")),
            ("rule", self.rule, ("match", "reject")),
            ("runner", self.runner, ("auto", "static", "fast")),
        ):
            if value not in known:
                raise SettingError(f"{name} is {value!r}.", f"It must be {' or '.join(known)}.")
        if self.raw and len(self.messages) != 1:
            raise SettingError("Raw text comes in one message.", f"{len(self.messages)} came.")
        if self.k is not None:
            _within("k", self.k, 0, MAX_K)
