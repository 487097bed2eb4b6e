"""Conversations as a tab sees them: the list, the one it shows, and where its turns lie.

Knows nothing of engines or replies being made. A guest has one conversation, in memory only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.check import Check
from app.history import History
from app.records import Conversation, Found, StoredMessage
from app.session import Session
from app.transcript import Stored, Transcript
from app.words import tr
from specdec.errors import HistoryError, SettingError

MAX_TITLE = 200


@dataclass(frozen=True, slots=True)
class Thread:
    """The conversation a tab shows. `writing` is the id of the reply being made, if any.

    `checks`: what Verify found, by the replies' ids; `opened`: replies whose tokens are shown;
    `versions`: what stands beside a message (`branches.versions`).
    """

    conversation: str = ""
    title: str = ""
    system: str = ""
    rows: tuple[StoredMessage, ...] = ()
    writing: int | None = None
    checks: Mapping[int, Check] = field(default_factory=dict)
    opened: frozenset[int] = frozenset()
    versions: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


class Chats:
    """Every method may be called from any thread."""

    def __init__(self, history: History) -> None:
        self._history = history

    def thread(self, session: Session, writing: int | None) -> Thread:
        """What this tab shows. A conversation that was deleted elsewhere becomes a new one."""
        if session.role == "guest":
            rows, versions = tuple(session.passing.messages()), session.passing.versions()
            return Thread(rows=rows, writing=writing, versions=versions)
        found = self._history.conversation(session.conversation) if session.conversation else None
        if found is None:
            session.conversation = ""
            return Thread()
        rows = tuple(self._history.messages(found.id))
        versions = self._history.versions(found.id)
        return Thread(found.id, found.title, found.system, rows, writing, versions=versions)

    def list(self, session: Session) -> list[Conversation]:
        """Pinned ones, then the latest first. Raises SettingError for a guest."""
        owner_only(session)
        return self._history.conversations()

    def found(self, session: Session) -> Sequence[Found]:
        """Those that hold what this tab searches for. Raises SettingError for a guest."""
        owner_only(session)
        return self._history.search(session.search)

    def pin(self, session: Session, conversation: str) -> None:
        """Pin it, or unpin it. Raises SettingError for a guest, HistoryError when it is gone."""
        owner_only(session)
        known = self._history.conversation(conversation)
        if known is None or not self._history.pin(conversation, not known.pinned):
            raise HistoryError(
                tr("This conversation is gone."), tr("Choose another from the list.")
            )

    def open(self, session: Session, conversation: str) -> None:
        """Show an earlier one. Raises SettingError for a guest, HistoryError when it is gone."""
        owner_only(session)
        if self._history.conversation(conversation) is None:
            raise HistoryError(
                tr("This conversation is gone."), tr("Choose another from the list.")
            )
        session.conversation = conversation

    def rename(self, session: Session, conversation: str, title: str) -> None:
        """Raises SettingError for a guest or an empty title, HistoryError when it is gone."""
        owner_only(session)
        if not title.strip():
            raise SettingError(tr("The title is empty."), tr("Write one."))
        if not self._history.rename(conversation, title.strip()[:MAX_TITLE]):
            raise HistoryError(
                tr("This conversation is gone."), tr("Choose another from the list.")
            )

    def hide(self, session: Session, conversation: str) -> None:
        """Take it out of the list (`app.deleting`). Raises SettingError for a guest."""
        owner_only(session)
        self._history.hide(conversation)
        if session.conversation == conversation:
            session.conversation = ""

    def place(self, session: Session) -> str:
        """The transcript id of what this tab shows; "" before the first message."""
        return session.conversation if session.role == "owner" else session.passing.id

    def existing(self, session: Session) -> Transcript | None:
        """The transcript, None where nothing was said yet."""
        if session.role == "guest":
            return session.passing
        return Stored(self._history, session.conversation) if session.conversation else None

    def transcript(self, session: Session, system: str) -> Transcript:
        """The transcript with this system prompt, made when there is none."""
        existing = self.existing(session)
        if session.role == "guest" and existing is not None:
            return existing
        if existing is None or not self._history.set_system(existing.id, system):
            session.conversation = self._history.create(system=system).id
        return Stored(self._history, session.conversation)


def owner_only(session: Session) -> None:
    """Raises SettingError for a guest; every handler asks, for hidden controls can be called."""
    if session.role != "owner":
        raise SettingError(tr("A guest cannot do that."), tr("Ask the owner of this computer."))
