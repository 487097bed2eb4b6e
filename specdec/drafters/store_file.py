"""Earlier replies on disk: one small file a tokenizer, and how they are dropped. Knows bytes only.

Nothing of models or drafts; standard library and a file lock, so that any process can clear it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import struct
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from specdec.errors import StoreError

MOST_BYTES = 2 << 20
"""Token ids a file holds, of four bytes each; the oldest replies give way."""

MOST_FILES = 8
"""Tokenizers whose replies are kept; the one not written for the longest gives way."""

_MAGIC = b"specdec replies 1\n"
_ROW = struct.Struct("<16sI")  # whose conversation, and how many bytes of ids follow
_EPOCH, _PART = "epoch", ".part-"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Kept:
    """A reply: a digest of its conversation's name, and its ids, little-endian, four bytes each."""

    conversation: bytes
    ids: bytes

    @property
    def tokens(self) -> tuple[int, ...]:
        """The ids as numbers."""
        return struct.unpack(f"<{len(self.ids) // 4}I", self.ids)


def kept(conversation: str, ids: Sequence[int]) -> Kept:
    """A reply of a conversation, as it is kept."""
    return Kept(digest(conversation), struct.pack(f"<{len(ids)}I", *ids))


def digest(conversation: str) -> bytes:
    """What stands for a conversation's name in a file."""
    return hashlib.blake2b(conversation.encode(), digest_size=16).digest()


def folder_of(data_dir: Path) -> Path:
    """Where the files of a data folder lie."""
    return data_dir / "replies"


def file_of(folder: Path, fingerprint: str) -> Path:
    """The file of a tokenizer, by `specdec.folder.fingerprint`."""
    return folder / f"{fingerprint[:32]}.replies"


def read(path: Path) -> list[Kept]:
    """The replies, the oldest first. One that is not ours or is damaged counts as empty, and the
    log says so: it is replaced at the next write."""
    try:
        return _parsed(path.read_bytes(), _head(path))
    except FileNotFoundError:
        return []
    except (OSError, ValueError, struct.error) as error:
        _log.warning("the n-gram store %s cannot be read and begins anew: %s", path, error)
        return []


def write(path: Path, replies: Sequence[Kept]) -> None:
    """Whole and at once, by whom the folder is locked. Raises OSError; the old file then stays."""
    body = b"".join(_ROW.pack(r.conversation, len(r.ids)) + r.ids for r in replies)
    _sweep(path.parent)
    _put(path, _head(path) + struct.pack("<I", zlib.crc32(body)) + body)
    for old in sorted(_files(path.parent), key=_written)[:-MOST_FILES]:
        old.unlink(missing_ok=True)


def newest(replies: Sequence[Kept], most: int = MOST_BYTES) -> list[Kept]:
    """As many of the last as fit in `most` bytes of ids, each once, in their order."""
    found: dict[bytes, Kept] = {}
    for reply in reversed(replies):
        if reply.ids not in found:
            most -= len(reply.ids)
            if most < 0:
                break
            found[reply.ids] = reply
    return list(found.values())[::-1]


def forget(data_dir: Path, conversation: str | None = None) -> int:
    """Drop the replies of a conversation, or all with None; how many there were.

    A reply that is being made meanwhile is not kept either (see `epoch`). Raises StoreError.
    """
    folder, dropped = folder_of(data_dir), 0
    if not folder.is_dir():
        return 0
    with locked(folder):
        _put(folder / _EPOCH, secrets.token_hex(8).encode())
        _sweep(folder)
        for path in _files(folder):
            replies = read(path)
            gone = None if conversation is None else digest(conversation)
            rest = [] if gone is None else [r for r in replies if r.conversation != gone]
            dropped += len(replies) - len(rest)
            if not rest:
                path.unlink(missing_ok=True)
            elif len(rest) < len(replies):
                write(path, rest)
    return dropped


def kept_in(data_dir: Path) -> tuple[int, int]:
    """How many replies are kept, of all tokenizers, and the bytes of their ids."""
    replies = [reply for path in _files(folder_of(data_dir)) for reply in read(path)]
    return len(replies), sum(len(reply.ids) for reply in replies)


def epoch(folder: Path) -> str:
    """Another text after each `forget`: what was begun before one must not be kept after it."""
    try:
        return (folder / _EPOCH).read_text(encoding="ascii")
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        _log.warning("%s cannot be read, so nothing is kept: %s", folder / _EPOCH, error)
        return secrets.token_hex(8)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time changes the files. Raises StoreError where that cannot be had."""
    try:
        with FileLock(folder / "lock", timeout=5):
            yield
    except (OSError, Timeout) as error:
        raise StoreError(
            f"Earlier replies in {folder} cannot be changed: {error}.",
            "Check the folder's permissions and free space, or delete it.",
        ) from error


def _put(path: Path, data: bytes) -> None:
    """A file that is the old one or the new one, whatever happens. Raises OSError."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=_PART)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _sweep(folder: Path) -> None:
    """What a process that was killed in a write left behind holds replies too."""
    for part in folder.glob(f"{_PART}*"):
        part.unlink(missing_ok=True)


def _files(folder: Path) -> list[Path]:
    return list(folder.glob("*.replies"))


def _written(path: Path) -> float:
    return path.stat().st_mtime


def _head(path: Path) -> bytes:
    """A file says whose it is, so that a copy under another name is not taken for that one's."""
    return _MAGIC + path.stem.encode() + b"\n"


def _parsed(data: bytes, head: bytes) -> list[Kept]:
    """Raises ValueError or struct.error for anything but what `write` wrote."""
    if not data.startswith(head) or len(data) < len(head) + 4:
        raise ValueError("it is another kind of file, or another tokenizer's")
    body = memoryview(data)[len(head) + 4 :]
    if zlib.crc32(body) != struct.unpack_from("<I", data, len(head))[0]:
        raise ValueError("it is damaged")
    replies, at = [], 0
    while at < len(body):
        conversation, size = _ROW.unpack_from(body, at)
        at += _ROW.size
        if size % 4 or at + size > len(body):
            raise ValueError("a reply in it has no end")
        replies.append(Kept(conversation, bytes(body[at : at + size])))
        at += size
    return replies
