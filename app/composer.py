"""The message being written: its files, and what it would come to. Knows nothing of pages.

Everything here asks the engine to count, never to answer; nothing is stored.
"""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakSet

from app.attachments import Attachment, block, composed, read
from app.chats import Chats
from app.desk import Options
from app.fit import Fit, fit
from app.guests import Guests
from app.records import StoredMessage
from app.session import Session
from app.transcript import prompt_of
from app.tray import Tray
from app.words import tr
from specdec.contract import ChatEngine, Message, prompt_limit
from specdec.errors import BusyError, SpecdecError

MAX_WAITING = 40_000_000
"""Characters of all files that were attached and not sent, every visitor's together."""


class Composer:
    """Every method may be called from any thread. Counting takes as long as the tokenizer does."""

    def __init__(self, engine: ChatEngine, chats: Chats, guests: Guests) -> None:
        self._engine = engine
        self._chats = chats
        self._guests = guests
        self._trays: WeakSet[Tray] = WeakSet()

    def attach(self, session: Session, name: str, data: bytes) -> None:
        """Put a file on the tray. Raises SettingError, which says what is wrong with it."""
        file = read(name, data)
        self._trays.add(session.tray)
        if sum(tray.characters for tray in self._trays) > MAX_WAITING:
            raise BusyError(tr("Too many files are waiting to be sent."), tr("Try again later."))
        session.tray.add(replace(file, tokens=self._tokens(file)))

    def fit(self, session: Session, words: str, options: Options, edited: int = 0) -> Fit | None:
        """What sending this would come to, in place of message `edited` if that is not 0.

        None where there is nothing to send, and where no model could count it.
        """
        files, pair = session.tray.files, self._engine.status().pair
        if pair is None or not (words.strip() or files):
            return None
        rows = [r for r in self._chats.thread(session, None).rows if not edited or r.id < edited]
        rows.append(StoredMessage(0, "", "user", composed(files, words)))
        most = self._guests.cut(session.who, options.sampling).max_tokens
        limit = prompt_limit(pair.context, most)
        try:
            messages = prompt_of(rows, options.system)
            return fit(self._engine.count_tokens, messages, limit, pair.context)
        except SpecdecError:  # a load began meanwhile, or the template refuses: sending says so
            return None

    def _tokens(self, file: Attachment) -> int | None:
        """Of the file alone, without what every message has around it."""
        if self._engine.status().pair is None:
            return None
        try:
            bare = self._engine.count_tokens([Message("user", ".")])
            return max(0, self._engine.count_tokens([Message("user", block(file))]) - bare + 1)
        except SpecdecError:
            return None
