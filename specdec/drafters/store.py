"""Earlier replies on this machine, for n-gram drafts: lent for a reply, closed otherwise.

Knows token ids and one file; nothing of text, prompts or who asks. Whether a reply may read it and
be kept in it is said by the engine for each reply (`ChatRequest.remember`), never guessed here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from specdec.drafters import store_file
from specdec.drafters.passages import Passages
from specdec.drafters.store_file import Kept, kept
from specdec.errors import StoreError

SHORTEST = 8
"""A reply of fewer tokens is not worth keeping."""

_AGAIN = 4096
"""Tokens of new replies, or a quarter of the sorted ones, after which all are sorted together."""

_log = logging.getLogger(__name__)


class ReplyStore:
    """Bounded, and shared by this machine's processes through its file. Not for two threads."""

    def __init__(self, folder: Path, fingerprint: str, vocab: int) -> None:
        self._folder = folder
        self._path = store_file.file_of(folder, fingerprint)
        self._vocab = vocab
        self._lent = False
        self._stamp: tuple[int, ...] = ()  # of the file as it was last read or written
        self._replies: list[Kept] = []
        self._sorted = Passages([])
        self._sorted_tokens = 0
        self._fresh: list[Sequence[int]] = []  # replies since all were sorted,
        self._few = Passages([])  # sorted by themselves
        self._refresh()

    @contextmanager
    def lending(self, conversation: str) -> Iterator[Lease]:
        """Open for one reply of this conversation, and closed after it on every exit."""
        began = store_file.epoch(self._folder)  # first: what is forgotten from now on shows
        self._refresh()
        self._lent = True
        try:
            yield Lease(self, conversation, began)
        finally:
            self._lent = False

    def find(self, tokens: Sequence[int], least: int) -> tuple[int, int]:
        """See `ngram.Earlier`: nothing while it is not lent. Places of new replies are below 0."""
        if not self._lent:
            return 0, 0
        run, place = self._few.find(tokens, least)
        other, there = self._sorted.find(tokens, max(least, run + 1))
        return (other, there) if other else (run, -place)

    def after(self, place: int, k: int) -> tuple[int, ...]:
        """At most k tokens from a place that `find` named, up to the end of that reply."""
        return self._few.after(-place, k) if place < 0 else self._sorted.after(place, k)

    def add(self, conversation: str, ids: Sequence[int], began: str) -> None:
        """Keep a reply, unless something was forgotten since `began`; the oldest give way.

        What cannot be written is not kept, and the log says why: a reply never fails for it.
        """
        if len(ids) < SHORTEST:
            return
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with store_file.locked(self._folder):
                if store_file.epoch(self._folder) != began:
                    return
                self._refresh()
                self._replies = store_file.newest([*self._replies, kept(conversation, ids)])
                store_file.write(self._path, self._replies)
                self._stamp = _stamp(self._path)
        except (OSError, StoreError) as error:
            _log.warning("a reply was not kept for later drafts: %s", error)
            return
        self._index(ids)

    def _refresh(self) -> None:
        """Read the file where another process has changed it, and sort what it holds."""
        if (stamp := _stamp(self._path)) == self._stamp:
            return
        self._stamp = stamp
        self._replies = store_file.read(self._path)
        self._sort()

    def _index(self, ids: Sequence[int]) -> None:
        """New replies are sorted by themselves, until they are many."""
        self._fresh.append(tuple(ids))
        if sum(map(len, self._fresh)) > max(_AGAIN, self._sorted_tokens // 4):
            self._sort()
        else:
            self._few = Passages(self._fresh)

    def _sort(self) -> None:
        texts = [t for t in (r.tokens for r in self._replies) if max(t, default=0) < self._vocab]
        self._sorted, self._sorted_tokens = Passages(texts), sum(map(len, texts))
        self._fresh, self._few = [], Passages([])


class Lease:
    """The store while it is lent to one reply."""

    def __init__(self, store: ReplyStore, conversation: str, began: str) -> None:
        self._store, self._conversation, self._began = store, conversation, began

    def keep(self, ids: Sequence[int]) -> None:
        """The finished reply, for later ones."""
        self._store.add(self._conversation, ids, self._began)


def _stamp(path: Path) -> tuple[int, ...]:
    """Changes whenever the file is replaced; () where there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return ()
    except OSError:
        return (-1,)  # `store_file.read` then says why
    return found.st_ino, found.st_mtime_ns, found.st_size
