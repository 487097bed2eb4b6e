"""THE SEAM between the page and the engine: requests, events, and the engine's methods.

Standard library only. Both sides import this file and neither imports the other. Everything here
is frozen, picklable and small: it crosses a pipe. The pieces live in `request`, `pair` and
`failure`; import them from here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from specdec.failure import ErrorInfo as ErrorInfo
from specdec.failure import Failed as Failed
from specdec.metrics import Metrics
from specdec.pair import Choice as Choice
from specdec.pair import DraftOption as DraftOption
from specdec.pair import Loaded as Loaded
from specdec.pair import LoadEvent as LoadEvent
from specdec.pair import Memory as Memory
from specdec.pair import ModelInfo as ModelInfo
from specdec.pair import Pace as Pace
from specdec.pair import Pair as Pair
from specdec.pair import Phase as Phase
from specdec.pair import PhaseName as PhaseName
from specdec.pair import State as State
from specdec.pair import Status as Status
from specdec.pair import Verdict as Verdict
from specdec.request import MAX_K as MAX_K
from specdec.request import ChatRequest as ChatRequest
from specdec.request import Message as Message
from specdec.request import Mode as Mode
from specdec.request import Role as Role
from specdec.request import Rule as Rule
from specdec.request import Runner as Runner
from specdec.request import Sampling as Sampling
from specdec.request import prompt_limit as prompt_limit

FinishReason = Literal["end", "stop", "length", "context", "cancelled"]
SpanKind = Literal["kept", "corrected", "bonus"]


# --- events of one reply ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Queued:
    """`position` replies are made before this one."""

    position: int


@dataclass(frozen=True, slots=True)
class Started:
    """The prompt is built. `dropped_turns` whole old turns did not fit and were left out.

    `runner` is static or fast; `exact` says whether this run may be called "same words" (DESIGN 5);
    `notice` is anything the user must be told about this reply (speculation off and why, ...).
    `prompt` is a digest of the prompt's ids; `thinking`: its template began a thought, so the reply
    begins inside one, without a tag. `begun` is the text of the request's `begun` ids, as much of
    it as stands whatever comes: rounds bring the rest, and `Finished` has it all.
    """

    prompt_tokens: int
    reused_tokens: int
    dropped_turns: int = 0
    seed: int = 0
    mode: Mode = "speculative"
    runner: Runner = "fast"
    exact: bool = False
    notice: str = ""
    prompt: str = ""
    thinking: bool = False
    begun: str = ""


@dataclass(frozen=True, slots=True)
class Prefill:
    """`done` of `total` tokens of the prompt, and of a reply begun, have been read."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start:end` of a round's text and where they came from."""

    start: int
    end: int
    kind: SpanKind


@dataclass(frozen=True, slots=True)
class Round:
    """One propose-score-verify round. `text` may lag behind `ids` while a character is incomplete.

    A character made of several tokens takes the kind of the last. `elapsed` is seconds since the
    first token, by the engine's clock; `new_tokens` counts those made so far.
    `k` tokens were asked of `source` ("ngram", a model's id, "" for none), and `reason` says why.
    """

    ids: tuple[int, ...]
    text: str
    spans: tuple[Span, ...]
    drafted: int
    accepted: int
    seconds: float
    new_tokens: int = 0
    elapsed: float = 0.0
    k: int = 0
    source: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something changed in mid-reply that the user should read (speculation went off, ...)."""

    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The reply is complete. `text` and `ids` are the whole reply; `ids` leave out the end id.

    `metrics` count what this request made, not what was `begun`.
    """

    reason: FinishReason
    metrics: Metrics
    ids: tuple[int, ...] = ()
    text: str = ""


Event = Queued | Started | Prefill | Round | Notice | Finished | Failed


# --- verify ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reply:
    """A finished reply: the request that made it (seed filled in), and its ids.

    With `reason` "end" it is also compared that plain decoding ends there. `prompt` is what
    `Started` said: another prompt would have another reply, so it is not compared.
    """

    request: ChatRequest
    ids: tuple[int, ...]
    reason: FinishReason | Literal[""] = ""
    prompt: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Plain decoding in the same runner, from an empty cache, against the ids on screen.

    `first_difference` is an index into the reply, None when identical. `gap` is the distance
    between the two tokens in logit/T - log E (logit at T = 0) at that place.
    """

    identical: bool
    compared: int
    first_difference: int | None = None
    gap: float | None = None
    expected: str = ""
    got: str = ""


# --- the engine -----------------------------------------------------------------------------


class Cancel(Protocol):
    """A `threading.Event` fits."""

    def is_set(self) -> bool: ...


class NeverCancel:
    """For callers that never cancel."""

    def is_set(self) -> bool:
        return False


class ChatEngine(Protocol):
    """In this process (`engine`), over a pipe (`process`), or the fake of the tests."""

    def models(self) -> Sequence[ModelInfo]:
        """The registry, with what is on disk and what fits."""

    def load(self, target: str | None = None, draft: str | None = None) -> Iterator[LoadEvent]:
        """Load a pair; None picks one for this machine; draft may be an id, "ngram",
        "none", or "auto" for several of them.

        Ends in exactly one `Loaded` or `Failed`. Never raises for a model's sake.
        """

    def stream(self, request: ChatRequest, cancel: Cancel) -> Iterator[Event]:
        """Make one reply. Ends in exactly one `Finished` or `Failed`; closing it cancels."""

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Tokens of the prompt these messages make, template included."""

    def verify(self, reply: Reply, cancel: Cancel) -> Comparison:
        """Decode plainly from an empty cache and compare ids."""

    def forget(self, conversation: str) -> None:
        """Keep nothing of this conversation for later drafts; a reply being made meanwhile is not
        kept either. Raises StoreError where that cannot be done."""

    def unload(self) -> None:
        """Let the pair go and give its memory back; the next `load` brings one again. A load under
        way or a reply being made ends in `Failed`."""

    def status(self) -> Status:
        """Answers at once, also while loading or answering."""

    def close(self) -> None:
        """End everything within seconds; safe to call twice."""
