"""Takes messages in and hands replies out: send, regenerate, edit, stop. Knows nothing of pages.

A message and its empty reply are stored before the engine hears of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace

from app import by_hand
from app.attachments import Attachment, to_request
from app.chats import Chats
from app.check import check_loaded
from app.going_on import begun, request_of
from app.guests import Guests
from app.line import Job, Line
from app.live import Live
from app.loader import Loader
from app.replies import Place, make_reply, refused, withdrawn
from app.session import Session
from app.transcript import Transcript, prompt_of
from app.verifying import Verifier
from app.words import tr
from specdec.contract import ChatEngine, ChatRequest, Mode, Phase, Rule, Sampling
from specdec.errors import BusyError, HistoryError, SettingError

MAX_MESSAGE = 400_000
"""Characters of one message; far above any context here, far below what hurts the server."""


@dataclass(frozen=True, slots=True)
class Options:
    """How the next reply is to be made."""

    sampling: Sampling = field(default_factory=Sampling)
    mode: Mode = "speculative"
    rule: Rule = "match"
    k: int | None = None
    system: str = ""


@dataclass(frozen=True, slots=True)
class Order:
    """A reply that was asked for."""

    job: Job[Live]
    place: Place
    request: ChatRequest


class Desk:
    """One reply at a time in each conversation. Every method may be called from any thread."""

    def __init__(
        self,
        engine: ChatEngine,
        loader: Loader,
        line: Line,
        chats: Chats,
        gone: Callable[[Session], bool],
        verifier: Verifier,
        guests: Guests,
    ) -> None:
        self._engine = engine
        self._loader = loader
        self._line = line
        self._chats = chats
        self._gone = gone
        self._verifier = verifier
        self._guests = guests
        self._orders: dict[str, Order] = {}  # by transcript id, the latest
        self._lock = threading.RLock()

    def send(
        self, session: Session, text: str, options: Options, files: Sequence[Attachment] = ()
    ) -> Job[Live]:
        """Store the message and an empty reply, then make it.

        Raises SettingError for an empty or giant message, BusyError while this conversation is
        being answered or too many wait, HistoryError when it cannot be stored.
        """
        _check(text, files)
        with self._lock:
            transcript = self._free(session, options)
            _, reply = transcript.add_turn(text, _asked(options), sent=to_request(files))
            return self._order(session, transcript, reply.id, options)

    def regenerate(
        self, session: Session, options: Options, message: int | None = None
    ) -> Job[Live]:
        """Make a reply (None: the last) anew, beside the old one. Raises as `send`."""
        with self._lock:
            transcript = self._free(session, options)
            rows = transcript.messages()
            if message is None and rows and rows[-1].role == "user":
                after = rows[-1].id  # no reply was ever stored
            else:
                replies = {row.id: row for row in rows if row.role == "assistant"}
                message = message if message is not None else max(replies, default=None)
                if message is None or message not in replies:
                    raise HistoryError(tr("There is no such reply."), tr("Send a message first."))
                after = replies[message].parent
                self._verifier.leave(transcript.id, message)
            reply = transcript.add_reply(_asked(options), after)
            return self._order(session, transcript, reply.id, options)

    def edit(
        self,
        session: Session,
        message: int,
        text: str,
        options: Options,
        files: Sequence[Attachment] = (),
    ) -> Job[Live]:
        """Answer another wording of one of the user's messages, beside it. Raises as `send`."""
        _check(text, files)
        with self._lock:
            transcript = self._free(session, options)
            row = next((row for row in transcript.messages() if row.id == message), None)
            if row is None or row.role != "user":
                raise HistoryError(tr("That message is gone."), tr("Reload the page."))
            self._verifier.leave(transcript.id, message)
            _, reply = transcript.add_turn(text, _asked(options), row.parent, to_request(files))
            return self._order(session, transcript, reply.id, options)

    def amend(self, session: Session, message: int, text: str) -> None:
        """Keep another wording of a reply, a person's, beside it. Nothing is generated.

        Raises SettingError for an empty or giant text, BusyError while this conversation is being
        answered or from a guest who asks too often, HistoryError when the reply is gone.
        """
        _check(text, ())
        with self._lock:
            transcript = self._resting(session)
            rows = transcript.messages() if transcript else []
            row = next((row for row in rows if row.id == message), None)
            if transcript is None or row is None or row.role != "assistant":
                raise HistoryError(tr("That reply is gone."), tr("Reload the page."))
            self._guests.ask(session.who)  # else a guest could fill the memory, a text at a time
            self._verifier.leave(transcript.id, message)
            transcript.add_written(text, by_hand.REQUEST, row.parent)

    def go_on(self, session: Session, message: int) -> Job[Live]:
        """Go on with the last reply where it was stopped, exactly as though it had not been.

        By the settings that began it; its token limit counts anew. Raises as `send`, and
        SettingError where it cannot go on.
        """
        with self._lock:
            transcript = self._chats.existing(session)
            rows = transcript.messages() if transcript else []
            request = request_of(rows, message, session.role == "owner")
            assert transcript is not None
            row, sampling = rows[-1], self._guests.cut(session.who, request.sampling)

            def check() -> None:
                check_loaded(
                    row, self._engine.status().pair, tr("Load what wrote it to go on with it.")
                )

            check()
            self._check_idle(session)
            self._verifier.drop(transcript.id, message)
            request = replace(request, sampling=sampling)
            place = Place(transcript, message, row.request)
            return self._put(session, request, place, begun(row), check)

    def show(self, session: Session, message: int) -> None:
        """Show the branch of another version of a message.

        Raises BusyError while this conversation is being answered, HistoryError when it is gone.
        """
        with self._lock:
            transcript = self._resting(session)
            if transcript is None or not transcript.show(message):
                raise HistoryError(tr("That message is gone."), tr("Reload the page."))

    def stop(self, session: Session) -> None:
        """End the reply of what this tab shows within one round; what was written stays."""
        self.stop_in(self._chats.place(session))

    def stop_in(self, transcript: str) -> None:
        """The same by transcript id."""
        order = self._orders.get(transcript)
        if order is None:
            return
        order.job.stop()
        if self._line.withdraw(order.job):
            withdrawn(self._engine, order.request, order.place, order.job)

    def active(self, session: Session) -> Job[Live] | None:
        """The reply of the conversation this tab shows, while it is being made."""
        order = self._orders.get(self._chats.place(session))
        return order.job if order and not order.job.done.is_set() else None

    def busy(self, transcript: str) -> bool:
        """Whether a reply is being made there."""
        order = self._orders.get(transcript)
        return order is not None and not order.job.done.is_set()

    def writing(self, session: Session) -> int | None:
        """The message id of `active`."""
        order = self._orders.get(self._chats.place(session))
        return order.place.message if order and not order.job.done.is_set() else None

    def live(self, job: Job[Live], phase: Phase | None) -> Live:
        """The snapshot, with what it waits for: its place in the queue, or a load's `phase`."""
        live = job.snapshot
        if live.started is not None or live.stage == "done":
            return live
        if phase is None:
            return replace(live, position=self._line.position(job))
        return replace(live, stage="loading", phase=phase)

    def _order(
        self, session: Session, transcript: Transcript, message: int, options: Options
    ) -> Job[Live]:
        rows = [row for row in transcript.messages() if row.id < message]
        request = ChatRequest(
            prompt_of(rows, options.system),
            self._guests.cut(session.who, options.sampling),
            options.mode,
            options.rule,
            options.k,
            conversation=transcript.id,
            remember=session.role == "owner",
        )
        live = Live(rule=options.rule, k=options.k)
        return self._put(session, request, Place(transcript, message), live)

    def _put(
        self,
        session: Session,
        request: ChatRequest,
        place: Place,
        live: Live,
        check: Callable[[], None] = lambda: None,
    ) -> Job[Live]:
        job: Job[Live] = Job(
            "reply",
            live,
            lambda job: make_reply(self._engine, self._loader, request, place, job, check),
            gone=lambda: self._gone(session),
            who=session.who,
        )
        running = {k: o for k, o in self._orders.items() if not o.job.done.is_set()}
        name = place.transcript.id
        self._orders = {**running, name: Order(job, place, request)}
        try:
            self._line.put(job)
        except BusyError as error:  # a race took the last place since `_free` looked
            del self._orders[name]
            refused(self._engine, request, place, job, error)
            raise
        return job

    def _resting(self, session: Session) -> Transcript | None:
        """The transcript this tab shows, if any. Raises BusyError while it is being answered."""
        self._check_resting(session)
        return self._chats.existing(session)

    def _check_resting(self, session: Session) -> None:
        if self.active(session) is not None:
            raise BusyError(tr("A reply is still being written here."), tr("Stop it first."))

    def _check_idle(self, session: Session) -> None:
        self._check_resting(session)
        self._line.check_room(session.who)
        self._guests.ask(session.who)

    def _free(self, session: Session, options: Options) -> Transcript:
        """The transcript to answer in; an empty one is not made for a message that is refused."""
        self._check_idle(session)
        return self._chats.transcript(session, options.system)


def _check(text: str, files: Sequence[Attachment]) -> None:
    if not text.strip() and not files:
        raise SettingError(tr("The message is empty."), tr("Write something first."))
    if (length := len(text) + sum(len(file.text) for file in files)) > MAX_MESSAGE:
        both = tr("The message and its files have {n} characters.", n=f"{length:,}")
        alone = tr("The message has {n} characters.", n=f"{length:,}")
        raise SettingError(
            both if files else alone,
            tr("At most {n} are taken.", n=f"{MAX_MESSAGE:,}"),
        )


def _asked(options: Options) -> dict[str, object]:
    return {"mode": options.mode, "rule": options.rule, "sampling": asdict(options.sampling)}
