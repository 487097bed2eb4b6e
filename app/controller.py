"""What a page can do, in one place: tabs, models, replies, conversations, races.

Knows nothing of gradio. Work is done by one worker and stored by it; a page only watches
(`line.watch`).
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, replace

from app.benches import Benches
from app.chats import Chats, Thread, owner_only
from app.composer import Composer
from app.deleting import Deleting
from app.desk import Desk, Options
from app.draft_gain import Record, records
from app.errands import Errands
from app.guests import Guests
from app.history import History
from app.importing import read_saved
from app.line import Job, Line, watch
from app.live import Live
from app.loader import SUPERSEDED, Loader, LoadView
from app.measured import Shelf
from app.model_shelf import ModelShelf
from app.presets import Presets
from app.race_desk import RaceDesk
from app.records import Conversation, StoredMessage
from app.session import LINGER_S, Access, Session, Sessions
from app.settings import SamplingSettings, SettingsFile
from app.sharing import Sharing
from app.spending import tokens_of
from app.unloading import Unloading
from app.verifying import Verifier
from specdec.contract import ChatEngine, ErrorInfo, ModelInfo, Phase, Status


class Controller:
    """One engine, one history, any number of tabs. Every method may be called from any thread."""

    def __init__(
        self,
        engine: ChatEngine,
        history: History,
        settings: SettingsFile,
        linger: float = LINGER_S,
        offline: bool = False,
    ) -> None:
        self._engine = engine
        self._history = history
        self._settings = settings
        self._sessions = Sessions(linger)
        self.guests = guests = Guests()
        self._line = Line(over=lambda job: guests.spent(job.who, tokens_of(job.snapshot)))
        self._loader = Loader(engine, settings)
        self.chats = Chats(history)
        self.composer = Composer(engine, self.chats, guests)
        self.presets = Presets(settings.path.with_name("presets.json"))
        gone = self._sessions.gone
        self.verifier = Verifier(engine, self._line, self.chats, gone, guests)
        self.desk = Desk(engine, self._loader, self._line, self.chats, gone, self.verifier, guests)
        self.deleting = Deleting(engine, history, self.chats, self.desk, self.verifier)
        self.errands = Errands(engine, self._loader, self._line, self.live, guests)
        self.measured = Shelf()
        self.races = RaceDesk(
            engine, self._loader, self._line, self.measured, gone, self.phase, guests
        )
        self.benches = Benches(engine, self._loader, self._line, self.measured, self.phase)
        self.sharing = Sharing(guests, lambda: self._sessions.end("share"))
        self._load: Job[LoadView] | None = None
        self._choosing = threading.Lock()
        self.model_shelf = ModelShelf(engine, settings.path.parent, offline)
        self.unloading = Unloading(engine, self._loader, self._line, settings)

    # --- tabs -----------------------------------------------------------------------------------

    def session(self, key: str, role: Access, who: str = "") -> Session:
        """The tab's session. Raises SettingError when the key belongs to another login."""
        return self._sessions.get(key, role, who)

    def leave(self, key: str) -> None:
        """The tab was closed; the replies it was shown go on for a while, then stop."""
        self._sessions.leave(key)
        self.races.leave(key)

    def options(self, session: Session) -> Options:
        """What the controls start with: the owner's saved settings, the defaults for a guest."""
        if session.role == "guest":
            return Options()
        saved = self._settings.settings
        return Options(saved.sampling.to_sampling(), saved.mode, saved.rule, saved.k, saved.system)

    def keep(self, session: Session, options: Options) -> None:
        """Remember the owner's controls. Raises SettingError when the file cannot be written."""
        if session.role == "guest":
            return
        saved = self._settings.settings
        values = {
            "sampling": SamplingSettings(**asdict(options.sampling)),
            "mode": options.mode,
            "rule": options.rule,
            "k": options.k,
            "system": options.system,
        }
        wanted = saved.model_copy(update=values)
        if wanted != saved:
            self._settings.save(wanted)

    @property
    def notices(self) -> tuple[str, ...]:
        """What went wrong with files at start-up; not for guests."""
        found = (self._settings.notice, self._history.notice, self.presets.notice)
        return tuple(n for n in found if n)

    # --- models ---------------------------------------------------------------------------------

    def start(self, target: str | None = None, draft: str | None = None) -> Job[LoadView]:
        """The first load: what the command line says, else the last pair, else chosen.

        Naming a draft does not forget the last target; another target has a draft of its own.
        """
        self.unloading.start()
        last_target, last_draft = self._loader.wanted
        same = target is None or target == last_target
        self._loader.wanted = (
            last_target if target is None else target,
            last_draft if draft is None and same else draft,
        )
        return self._put_load(*self._loader.wanted)

    def load(self, session: Session, target: str | None, draft: str | None) -> Job[LoadView]:
        """Load a pair after the reply that is being made, in place of any load before it.

        None means: choose for this machine. Raises SettingError for a guest.
        """
        owner_only(session)
        return self._put_load(target, draft)

    def loading(self) -> Job[LoadView] | None:
        """The load that runs or waits, or was the last."""
        return self._load

    def load_error(self) -> ErrorInfo | None:
        """Why the last load failed, until one succeeds."""
        return self._loader.error

    def status(self) -> Status:
        return self._engine.status()

    def models(self, session: Session) -> Sequence[ModelInfo]:
        """The registry. Raises SettingError for a guest."""
        owner_only(session)
        return self._engine.models()

    def draft_records(self, session: Session) -> dict[str, Record]:
        """What earlier replies say of drafts for the loaded target. Raises SettingError."""
        owner_only(session)
        pair = self.status().pair
        return records(self._history, pair.target.value) if pair else {}

    def phase(self) -> Phase | None:
        """Where a load stands, whoever asked for it; None when none runs."""
        status = self._engine.status()
        if status.state == "loading":
            return status.phase or Phase("starting")
        current = self._line.current
        return Phase("starting") if current is not None and current.kind == "load" else None

    def _put_load(self, target: str | None, draft: str | None) -> Job[LoadView]:
        job: Job[LoadView] = Job(
            "load", LoadView(target, draft), lambda job: self._loader.switch(target, draft, job)
        )
        with self._choosing:  # the newest choice is the one that counts, also for the page
            for older in self._line.put_instead(job):
                older.snapshot = replace(older.snapshot, error=SUPERSEDED)
                older.done.set()
            self._load = job
        return job

    # --- replies --------------------------------------------------------------------------------

    def thread(self, session: Session) -> Thread:
        """What this tab shows."""
        shown = self.chats.thread(session, self.desk.writing(session))
        opened = frozenset(session.opened)
        return replace(shown, checks=self.verifier.checks(session), opened=opened)

    def stored(self, conversation: str) -> tuple[Conversation, Sequence[StoredMessage]] | None:
        """One of the owner's conversations, all branches; the caller has seen to who asks."""
        found = self._history.conversation(conversation)
        return None if found is None else (found, self._history.tree(conversation))

    def restore(self, text: bytes) -> Conversation:
        """Store a saved conversation as a new one; the caller has seen to who asks.

        Raises SettingError for a file that is none, HistoryError when it cannot be stored.
        """
        saved = read_saved(text)
        return self._history.restore(saved.title, saved.system, saved.pinned, saved.rows())

    def live(self, job: Job[Live]) -> Live:
        """A reply now, with what it waits for."""
        return self.desk.live(job, self.phase())

    def watch(self, job: Job[Live]) -> AsyncIterator[Live]:
        """A reply as it grows, at most 12.5 times a second."""
        return watch(job, lambda: self.live(job))

    def new(self, session: Session) -> None:
        """An empty conversation; it is stored with its first message."""
        if session.role == "guest":
            self.deleting.clear(session)
        session.conversation = ""

    def close(self) -> None:
        """Stop what runs; the engine and the history are closed by whoever made them."""
        self.sharing.close()
        self.unloading.close()
        self.model_shelf.close()
        self._line.close()
        self.deleting.bin.close()
