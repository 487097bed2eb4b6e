"""Deleting and clearing conversations: at once for whoever looks, final after a while.

Knows the stored turns, the desk and the engine; nothing of pages. A program that ends or dies
meanwhile deletes at its end, or at the next start.
"""

from __future__ import annotations

from app.chats import Chats, owner_only
from app.desk import Desk
from app.history import History
from app.session import Session
from app.undo import Bin, Gone
from app.verifying import Verifier
from app.words import tr
from specdec.contract import ChatEngine
from specdec.errors import BusyError, HistoryError


class Deleting:
    """Every method may be called from any thread."""

    def __init__(
        self, engine: ChatEngine, history: History, chats: Chats, desk: Desk, verifier: Verifier
    ) -> None:
        self._engine = engine
        self._history = history
        self._chats = chats
        self._desk = desk
        self._verifier = verifier
        self.bin = Bin()
        history.purge()

    def delete(self, session: Session, conversation: str) -> Gone | None:
        """Stop its reply and hide it; None when it was gone. Raises SettingError for a guest.

        What was kept of it for later drafts is gone for good, and an undo does not bring it back.
        """
        owner_only(session)
        found = self._history.conversation(conversation)
        self._desk.stop_in(conversation)
        self._verifier.drop(conversation)
        self._chats.hide(session, conversation)
        gone = None
        if found is not None:
            gone = Gone(
                "Deleted",
                found.title,
                conversation,
                lambda: self._returned(self._history.bring_back(conversation)),
                lambda: self._history.delete(conversation),
            )
            self.bin.put(_party(session), gone)
        self._engine.forget(conversation)
        return gone

    def clear(self, session: Session) -> Gone | None:
        """Stop, then hide every message of the conversation this tab shows; None without any."""
        self._desk.stop(session)
        transcript, thread = self._chats.existing(session), self._chats.thread(session, None)
        if transcript is None or not thread.rows:
            return None
        self._verifier.drop(transcript.id)
        name, (back, purge) = transcript.id, transcript.clear()

        def again() -> None:
            if self._desk.busy(name):  # its messages would move under it
                raise BusyError(tr("A reply is still being written here."), tr("Stop it first."))
            self._returned(back() is not False)

        gone = Gone("Cleared", thread.title, thread.conversation, again, purge)
        self.bin.put(_party(session), gone)
        if session.role == "owner":
            self._engine.forget(transcript.id)
        return gone

    def undo(self, session: Session) -> Gone:
        """Bring back what was deleted last, and show it where nothing else is shown.

        Raises BusyError while what was cleared is being answered, HistoryError when it is gone for
        good.
        """
        gone = self.bin.undo(_party(session))
        if session.role == "owner" and not session.conversation:
            session.conversation = gone.conversation
        return gone

    def _returned(self, done: bool) -> None:
        if not done:
            raise HistoryError(tr("It is gone for good."))


def _party(session: Session) -> str:
    """The owner's tabs share one list; every guest is alone."""
    return "owner" if session.role == "owner" else session.passing.id
