"""A scripted ChatEngine: the whole contract with believable timing, and failures on demand.

Knows nothing of torch. The reply is a function of (seed, last message), in both modes, so a race
on it is identical unless `differ_at` says otherwise.
"""

from __future__ import annotations

import random
import re
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from specdec.contract import (
    Cancel,
    ChatRequest,
    Comparison,
    DraftOption,
    ErrorInfo,
    Event,
    Failed,
    Finished,
    FinishReason,
    Loaded,
    LoadEvent,
    Message,
    ModelInfo,
    Notice,
    Prefill,
    Queued,
    Reply,
    Round,
    Span,
    Started,
    Status,
)
from specdec.metrics import Metrics
from tests.app.fake_models import MODELS, make_pair, phases

PROSE = (
    "Speculative decoding lets a **small model guess** several words ahead, and the large model "
    "check them all in one pass.\n\nWhat survives the check is exactly what the large model would "
    "have written by itself:\n\n1. the draft proposes `k` tokens,\n2. the target scores them "
    "together,\n3. the first one that differs is replaced.\n\n"
)
CODE = (
    "```python\ndef rounds(draft, target, k=4):\n    # one round: propose, score, keep\n"
    "    tokens = draft.propose(k)\n    kept = target.verify(tokens)\n"
    '    return kept or ["<none>"]\n```\n\nEvery round keeps at least one token.'
)


@dataclass
class Script:
    """What the fake does. Change a field at any time; the next step sees it."""

    token_s: float = 0.0  # seconds a plain step takes; a speculative round takes 1.3 of it
    load_s: float = 0.0  # seconds a whole load takes
    prompt_chunk: int = 64
    reply: str | None = None  # None: prose and code that depend on seed and last message
    fail_after: int | None = None  # tokens after which a reply ends in Failed
    fail_start: ErrorInfo | None = None  # a reply that fails before its first token
    fail_load: dict[str, ErrorInfo] = field(default_factory=dict)  # by target id
    die: bool = False  # stream() ends without Finished or Failed, as no engine should
    acceptance: float = 0.75
    notice: str = ""  # in Started
    notice_at: int | None = None  # a Notice event at this round
    drafted: bool = True  # False: speculation proposes nothing
    differ_at: int | None = None  # standard mode writes another token at this index
    exact: bool = True
    runner: str = "static"
    dropped_turns: int = 0
    drafts: tuple[DraftOption, ...] = ()  # more candidates for the draft
    hold: threading.Event | None = None  # replies wait here after their first round


def pieces(text: str) -> list[str]:
    """A tokenizer of sorts: words with the space before them, punctuation, line ends."""
    return re.findall(r"\n|\s?\w+|\s?[^\w\s]|\s", text)


def token_id(piece: str) -> int:
    """A stable id for a piece of text."""
    return zlib.crc32(piece.encode()) % 49_152


class FakeEngine:
    """Implements ChatEngine. `requests` and `events` record what was asked and sent."""

    def __init__(self, script: Script | None = None) -> None:
        self.script = script or Script()
        self.requests: list[ChatRequest] = []
        self.events: list[Event] = []
        self.loads: list[tuple[str | None, str | None]] = []
        self.forgotten: list[str] = []  # conversations
        self.abandoned: list[str] = []  # targets whose load was left before its end
        self.running = 0  # replies being made now
        self.closed = False
        self.unloads = 0
        self._turn = threading.Lock()
        self._waiting = 0
        self._status = Status("starting", versions={"fake": "1"})

    # --- models -------------------------------------------------------------------------------

    def models(self) -> Sequence[ModelInfo]:
        """Ready, on the hub, gated, too big."""
        return MODELS

    def load(self, target: str | None = None, draft: str | None = None) -> Iterator[LoadEvent]:
        """All phases, then Loaded; Failed for a target in `fail_load`."""
        self.loads.append((target, draft))
        name = target or "smollm2-135m-instruct"
        for phase in phases(name):
            self._status = Status("loading", phase=phase, versions=self._status.versions)
            try:
                yield phase
            except GeneratorExit:
                self.abandoned.append(name)
                raise
            time.sleep(self.script.load_s / 8)
            if phase.name == "loading" and name in self.script.fail_load:
                error = self.script.fail_load[name]
                self._status = replace(self._status, state="failed", phase=None, error=error)
                yield Failed(error)
                return
        pair = make_pair(name, draft or "ngram", self.script.runner, self.script.exact)
        pair = replace(pair, drafts=(*pair.drafts, *self.script.drafts))
        self._status = Status("ready", pair, versions={"fake": "1"})
        yield Loaded(pair)

    # --- replies ------------------------------------------------------------------------------

    def stream(self, request: ChatRequest, cancel: Cancel) -> Iterator[Event]:
        """One reply; others wait their turn."""
        self.requests.append(request)
        self._waiting += 1
        try:
            if self._turn.locked():
                yield self._note(Queued(self._waiting - 1))
            with self._turn:
                self.running += 1
                try:
                    for event in self._reply(request, cancel):
                        yield self._note(event)
                finally:
                    self.running -= 1
        finally:
            self._waiting -= 1

    def _note(self, event: Event) -> Event:
        self.events.append(event)
        return event

    def _reply(self, request: ChatRequest, cancel: Cancel) -> Iterator[Event]:
        script = self.script
        began = time.monotonic()
        seed = request.sampling.seed if request.sampling.seed is not None else 1234
        prompt = self.count_tokens(request.messages)
        failure = script.fail_start
        if not request.messages:
            failure = ErrorInfo("PromptError", "The conversation is empty.", "Write first.")
        if failure:
            yield Failed(failure)
            return
        runner = script.runner if request.runner == "auto" else request.runner
        tokens = self._tokens(request, seed)
        yield Started(
            prompt, 0, script.dropped_turns, seed, request.mode,
            runner, script.exact, script.notice,  # type: ignore[arg-type]
            prompt=f"{zlib.crc32(repr(request.messages).encode()):016x}",
            begun="".join(tokens[: len(request.begun)]),
        )  # fmt: skip
        for done in range(0, prompt, script.prompt_chunk):
            if cancel.is_set():
                said = "".join(tokens[: len(request.begun)])
                yield Finished("cancelled", Metrics(prompt_tokens=prompt), request.begun, said)
                return
            yield Prefill(min(done + script.prompt_chunk, prompt), prompt)
            time.sleep(script.token_s)
        yield from self._rounds(request, cancel, tokens, seed, began, prompt)

    def _tokens(self, request: ChatRequest, seed: int) -> list[str]:
        text = self.script.reply
        if text is None:
            last = request.messages[-1].content
            start = PROSE if (seed + len(last)) % 2 else PROSE.replace("Speculative", "Exact")
            text = start + CODE
        tokens = pieces(text)
        if request.mode == "standard" and self.script.differ_at is not None:
            tokens[self.script.differ_at] = " otherwise"
        return tokens

    def _rounds(
        self,
        request: ChatRequest,
        cancel: Cancel,
        tokens: list[str],
        seed: int,
        began: float,
        prompt: int,
    ) -> Iterator[Event]:
        script, rng, begun = self.script, random.Random(seed), len(request.begun)
        limit = begun + request.sampling.max_tokens
        reason: FinishReason = "end" if len(tokens) <= limit else "length"
        tokens = tokens[:limit]
        speculative = request.mode == "speculative" and script.drafted
        first = after_first = 0.0
        made, rounds, drafted, accepted, first_round = begun, 0, 0, 0, 0
        while made < len(tokens):
            if cancel.is_set():
                reason = "cancelled"
                break
            k = min(4, len(tokens) - made - 1) if speculative else 0
            kept = next((i for i in range(k) if rng.random() > script.acceptance), k)
            started = time.monotonic()
            time.sleep(script.token_s * (1.3 if k else 1.0))
            part = tokens[made : made + kept + 1]
            made, rounds, drafted, accepted = (
                made + len(part),
                rounds + 1,
                drafted + k,
                accepted + kept,
            )
            now = time.monotonic()
            if rounds == 1:
                first, first_round = now, len(part)
            after_first = now - first
            yield Round(
                tuple(map(token_id, part)), "".join(part), _spans(part, kept, k), k, kept,
                now - started, made - begun, after_first,
            )  # fmt: skip
            if script.hold is not None:
                script.hold.wait(30)
            if script.notice_at == rounds:
                yield Notice("Speculation is off for now: it does not pay here.")
            if script.fail_after is not None and made >= script.fail_after:
                yield Failed(
                    ErrorInfo("EngineError", "The engine ran out of memory.", "Send again.")
                )
                return
        if script.die:
            return
        metrics = Metrics(
            prompt,
            0,
            made - begun,
            rounds,
            drafted,
            accepted,
            (first or began) - began,
            after_first,
            0.0,
            first_round,
        )
        ids = tuple(map(token_id, tokens[:made]))
        yield Finished(reason, metrics, ids, "".join(tokens[:made]))

    # --- the rest -----------------------------------------------------------------------------

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Pieces plus four a message for the template."""
        return sum(len(pieces(m.content)) + 4 for m in messages)

    def verify(self, reply: Reply, cancel: Cancel) -> Comparison:
        """Identical unless `differ_at` says otherwise."""
        at = self.script.differ_at
        if at is None or at >= len(reply.ids):
            return Comparison(True, len(reply.ids))
        return Comparison(False, at + 1, at, 0.02, " otherwise", " so")

    def forget(self, conversation: str) -> None:
        """Remembered, nothing else."""
        self.forgotten.append(conversation)

    def unload(self) -> None:
        """Nothing is loaded any more."""
        self.unloads += 1
        self._status = Status("unloaded", versions=self._status.versions)

    def status(self) -> Status:
        """What the script made of it."""
        return replace(self._status, queue=self._waiting)

    def close(self) -> None:
        """Remembered, nothing else."""
        self.closed = True


def _spans(part: list[str], kept: int, k: int) -> tuple[Span, ...]:
    spans, at = [], 0
    for i, piece in enumerate(part):
        kind = "kept" if i < kept else ("bonus" if kept == k else "corrected")
        spans.append(Span(at, at + len(piece), kind))  # type: ignore[arg-type]
        at += len(piece)
    return tuple(spans)
