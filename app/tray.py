"""The files that will go with a tab's next message. Knows nothing of pages or engines."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence

from app.attachments import Attachment
from app.words import tr
from specdec.errors import SettingError

MOST = 20
MAX_CHARACTERS = 400_000
"""Of all files of one message together."""


class Tray:
    """Every method may be called from any thread."""

    def __init__(self) -> None:
        self._files: dict[int, Attachment] = {}
        self._aside: dict[int, Attachment] | None = None  # while an earlier message is edited
        self._next = itertools.count(1)
        self._lock = threading.Lock()

    def items(self) -> list[tuple[int, Attachment]]:
        """Each file with the number that removes it."""
        with self._lock:
            return list(self._files.items())

    @property
    def files(self) -> tuple[Attachment, ...]:
        return tuple(file for _, file in self.items())

    @property
    def characters(self) -> int:
        """Of everything that is kept here."""
        with self._lock:
            return _length(self._files) + _length(self._aside or {})

    def add(self, file: Attachment) -> None:
        """Raises SettingError where it is one too many. The same file twice is there once."""
        with self._lock:
            same = [
                number
                for number, known in self._files.items()
                if (known.name, known.text) == (file.name, file.text)
            ]
            if same:  # under a new number, so that a page sees that it came
                del self._files[same[0]]
            if len(self._files) >= MOST:
                raise SettingError(
                    tr("{name} was not attached.", name=file.name),
                    tr("At most {n} files go with a message.", n=MOST),
                )
            if _length(self._files) + len(file.text) > MAX_CHARACTERS:
                raise SettingError(
                    tr("{name} was not attached: the files are too long together.", name=file.name),
                    tr(
                        "At most {n} characters go with a message.",
                        n=f"{MAX_CHARACTERS:,}",
                    ),
                )
            self._files[next(self._next)] = file

    def remove(self, number: int) -> None:
        """Nothing happens when it is gone already."""
        with self._lock:
            self._files.pop(number, None)

    def edit(self, files: Sequence[Attachment]) -> None:
        """Show an earlier message's files; those that waited here come back afterwards."""
        with self._lock:
            if self._aside is None:
                self._aside = self._files
            self._files = {next(self._next): file for file in files}

    def done(self) -> None:
        """The message was sent, or editing it was given up."""
        with self._lock:
            self._files, self._aside = self._aside or {}, None


def _length(files: dict[int, Attachment]) -> int:
    return sum(len(file.text) for file in files.values())
