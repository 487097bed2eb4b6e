"""The engine in this process: one running turn, a queue, prefix reuse, cancel.

Knows sessions and turns; nothing of pages, files on disk or other processes.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace

from specdec import catalogue
from specdec.assemble import assemble, explain
from specdec.begun import check_begun
from specdec.compare import compare
from specdec.contract import (
    Cancel,
    ChatRequest,
    Comparison,
    ErrorInfo,
    Event,
    Failed,
    Finished,
    Loaded,
    LoadEvent,
    Message,
    ModelInfo,
    Phase,
    Queued,
    Reply,
    Started,
    Status,
    prompt_limit,
)
from specdec.detokenize import TextStream
from specdec.drafters.none import NoDrafter
from specdec.drafters.store_file import forget
from specdec.errors import EngineError, SpecdecError
from specdec.metrics import Metrics
from specdec.noise import Noise
from specdec.options import EngineOptions
from specdec.progress import relay
from specdec.session import Cached, Session
from specdec.turn import Task, Turn
from specdec.turnstile import Ticket, Turnstile

_log = logging.getLogger(__name__)


class LocalEngine:
    """Implements `ChatEngine`. Generators do their work in the caller's thread."""

    def __init__(self, options: EngineOptions) -> None:
        self._options = options
        self._line = Turnstile()
        self._session: Session | None = None
        self._closed = threading.Event()
        self._status = Status("starting", versions=catalogue.versions())

    def models(self) -> Sequence[ModelInfo]:
        """The registry, with what is on disk and what fits."""
        return catalogue.rows(self._options)

    def load(self, target: str | None = None, draft: str | None = None) -> Iterator[LoadEvent]:
        """Waits for the running reply; the old pair is let go before the new one is read."""
        with self._line.join() as ticket:
            while not (ticket.wait(0.1) or self._closed.is_set()):
                continue
            if self._closed.is_set():
                yield Failed(ErrorInfo.of(EngineError("The engine was closed.")))
                return
            self._session = None
            try:
                self._session = yield from self._assemble(target, draft)
                pair = self._session.pair
                self._note(Status("ready", pair=pair))
                yield Loaded(pair)
            except Exception as error:  # reported as an event: the page outlives a failed load
                info = _noted("load", error)
                self._note(Status("failed", error=info))
                yield Failed(info)

    def stream(self, request: ChatRequest, cancel: Cancel) -> Iterator[Event]:
        """Make one reply; closing the iterator cancels it. See `ChatEngine.stream`."""
        try:
            with self._line.join() as ticket:
                yield from self._wait(ticket, cancel)
                if cancel.is_set() or self._closed.is_set():
                    yield Finished("cancelled", Metrics())
                    return
                yield from self._reply(self._need_session(), request, cancel)
        except Exception as error:
            yield Failed(_noted("reply", error))

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Tokens of the prompt these messages make, template included."""
        return self._need_session().prompts.count(messages)

    def verify(self, reply: Reply, cancel: Cancel) -> Comparison:
        """Decode plainly in the same runner from an empty cache; see `compare`."""
        with self._line.join() as ticket:
            while not ticket.wait(0.1):
                if cancel.is_set() or self._closed.is_set():
                    raise EngineError("Verify was cancelled while it waited.")
            session = self._need_session()
            return compare(session, reply, cancel)

    def forget(self, conversation: str) -> None:
        """See `ChatEngine.forget`; the reply being made sees it when it ends."""
        forget(self._options.data_dir, conversation)

    def unload(self) -> None:
        """Let the pair go; the reply being made ends first. A process that stays keeps some."""
        with self._line.join() as ticket:
            while not (ticket.wait(0.1) or self._closed.is_set()):
                continue
            self._session = None
            self._note(Status("unloaded"))

    def status(self) -> Status:
        """Answers at once, also while loading or answering."""
        return replace(self._status, queue=len(self._line))

    def close(self) -> None:
        """End the running reply at its next round and let the models go."""
        self._closed.set()
        self._session = None

    def _assemble(
        self, target: str | None, draft: str | None
    ) -> Generator[LoadEvent, None, Session]:
        """Load in a thread of its own, so that phases are seen while it works."""

        def work(show: Callable[[Phase], None]) -> Session:
            return assemble(self._options, target, draft, show, self._closed.is_set)

        phases = relay(work)
        while True:
            try:
                phase = next(phases)
            except StopIteration as end:
                session: Session = end.value
                return session
            self._note(Status("loading", phase=phase))
            yield phase

    def _note(self, status: Status) -> None:
        self._status = replace(status, versions=self._status.versions)

    def _need_session(self) -> Session:
        if self._session is None:
            raise EngineError("No model is loaded.", "Choose one under Settings.")
        return self._session

    def _wait(self, ticket: Ticket, cancel: Cancel) -> Iterator[Event]:
        """Until it is this ticket's turn, or nobody waits for the reply any more."""
        said = 0
        while not (ticket.wait(0.1) or cancel.is_set() or self._closed.is_set()):
            if (position := ticket.position) != said:
                yield Queued(position)
                said = position

    def _reply(self, session: Session, request: ChatRequest, cancel: Cancel) -> Iterator[Event]:
        sampling = request.sampling
        if sampling.seed is None:
            sampling = replace(sampling, seed=secrets.randbits(53))  # 53: exact in JSON numbers
        limit = prompt_limit(session.pair.context, sampling.max_tokens)
        prompt = session.prompts.of(request, limit)
        runner, cached = session.scorer(request.runner)
        fresh = request.fresh or request.conversation != cached.conversation
        noise = Noise.of(sampling.seed or 0, prompt.ids)
        check_begun(request, prompt.ids, noise, session.pair.context, cached.scorer.vocab)
        reused = cached.keep_prefix(prompt.ids, fresh, request.conversation, request.begun)
        speculates = session.speculates(request)
        drafter = session.drafter if speculates else NoDrafter()
        if fresh:
            drafter.begin(())
        task = Task(
            prompt.ids,
            sampling,
            request.rule,
            noise,
            session.end_ids,
            session.pair.context,
            request.begun,
        )
        text = TextStream(session.decode, sampling.stop)
        length = session.make_length(request.k if speculates else 0, request.conversation)
        turn = Turn(task, cached.scorer, drafter, length, text)
        yield Started(
            prompt_tokens=len(prompt.ids),
            reused_tokens=reused,
            dropped_turns=prompt.dropped_turns,
            seed=sampling.seed or 0,
            mode="speculative" if speculates else "standard",
            runner=runner,
            exact=cached.scorer.exact and request.rule == "match",
            notice=_notice(session, request, prompt.notice),
            prompt=noise.prompt,
            thinking=prompt.thinking,
            begun=turn.begun,
        )
        with session.lent(request) as lease:
            yield from _guarded(turn, cached, _Either(cancel, self._closed))
            if lease:
                lease.keep(turn.reply[len(request.begun) :])  # the rest was kept when it stopped


def _noted(what: str, error: Exception) -> ErrorInfo:
    """The error as data, and in the log: with its trace only where it is not one a user reads."""
    known = explain(error)
    _log.log(
        logging.INFO if isinstance(known, SpecdecError) else logging.ERROR,
        "%s failed: %s",
        what,
        known,
        exc_info=not isinstance(known, SpecdecError),
    )
    return ErrorInfo.of(known)


class _Either:
    """Cancelled when either of two flags is set."""

    def __init__(self, one: Cancel, other: Cancel) -> None:
        self._flags = (one, other)

    def is_set(self) -> bool:
        return any(flag.is_set() for flag in self._flags)


def _guarded(turn: Turn, cached: Cached, cancel: Cancel) -> Iterator[Event]:
    """Run the turn and keep the note of what is cached true on every exit."""
    try:
        yield from turn.run(cancel)
    except Exception:
        cached.forget()  # the failure may have left half-written rows
        raise
    finally:
        cached.note(turn.tokens, len(turn.prompt) - 1)


def _notice(session: Session, request: ChatRequest, prompt: str) -> str:
    """What the user must be told about this reply, in one line; `dropped_turns` says the rest."""
    said = [prompt] if prompt else []
    if request.mode == "speculative" and session.drafter.name == "none":
        said.append(f"Speculation is off: {session.pair.draft.reason}")
    return " ".join(said)
