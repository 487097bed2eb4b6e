"""Text files that go with a message: read, named, and put in front of the words. Pure functions."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from app.records import StoredMessage
from app.words import marked, tr
from specdec.errors import SettingError

MAX_FILE = 1_000_000
"""Bytes of one file."""
MAX_NAME = 100
KEY = "attachments"
"""Where a message's `request` column holds them."""

_KINDS: tuple[tuple[bytes, str], ...] = (
    (b"%PDF", marked("a PDF document")),
    (b"PK\x03\x04", marked("a zip archive or an office document")),
    (b"\xd0\xcf\x11\xe0", marked("an old office document")),
    (b"\x89PNG", marked("a picture")),
    (b"\xff\xd8\xff", marked("a picture")),
    (b"GIF8", marked("a picture")),
    (b"RIFF", marked("a picture, sound or film")),
    (b"ID3", marked("a sound")),
    (b"\x1f\x8b", marked("a gzip archive")),
    (b"BZh", marked("a bzip2 archive")),
    (b"\xfd7zXZ", marked("an xz archive")),
    (b"7z\xbc\xaf", marked("a 7z archive")),
    (b"\x7fELF", marked("a program")),
    (b"MZ", marked("a program")),
    (b"SQLite format 3", marked("a database")),
    (b"GGUF", marked("a model")),
)
BINARY = marked("a binary file")
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True, slots=True)
class Attachment:
    """One file. `size` is in bytes as it lay on disk; `tokens` None: nobody could count them."""

    name: str
    text: str
    size: int
    tokens: int | None = None


def read(name: str, data: bytes) -> Attachment:
    """Raises SettingError, which says what the file is, unless it is text."""
    name = plain_name(name)
    if len(data) > MAX_FILE:
        raise too_large(name, len(data))
    if not data:
        raise SettingError(tr("{name} is empty.", name=name), tr("Nothing was attached."))
    encoding = next((found for bom, found in _BOMS if data.startswith(bom)), "utf-8")
    kind = next((kind for magic, kind in _KINDS if data.startswith(magic)), "")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        text = ""
    if text and "\0" not in text and kind != "a PDF document":
        return Attachment(name, text, len(data))
    if not kind and b"\0" not in data[:4096]:
        raise SettingError(
            tr("{name} is neither UTF-8 nor UTF-16 text.", name=name),
            tr("Save it as UTF-8 and attach it again."),
        )
    raise SettingError(
        tr("{name} is {kind}, not text.", name=name, kind=tr(kind or BINARY)),
        tr("Only text files can be attached."),
    )


def too_large(name: str, size: int) -> SettingError:
    """For a file of this many bytes."""
    return SettingError(
        tr("{name} has {size} MB.", name=plain_name(name), size=f"{size / 1e6:.1f}"),
        tr("At most 1 MB is read: attach a part of it."),
    )


def plain_name(name: str) -> str:
    """The last part of a path, on one line, without characters that turn or hide text."""
    last = re.split(r"[/\\]", name)[-1]
    seen = "".join(" " if unicodedata.category(c)[0] in "CZ" else c for c in last)
    return " ".join(seen.split())[:MAX_NAME] or "file"


def block(file: Attachment) -> str:
    """Name and text as the model reads them; nothing in the text can close the fence."""
    longest = max(map(len, re.findall("`+", file.text)), default=0)
    fence = "`" * max(3, longest + 1)
    end = "" if file.text.endswith("\n") else "\n"
    return f"File: {plain_name(file.name)}\n\n{fence}\n{file.text}{end}{fence}"


def composed(files: Sequence[Attachment], words: str) -> str:
    """The whole message: the files, then what was written."""
    return "\n\n".join([*map(block, files), *([words] if words or not files else [])])


def whole(row: StoredMessage) -> str:
    """A stored message as the model reads it, as it is copied and exported."""
    return composed(attachments_of(row.request), row.content)


def searched(row: StoredMessage) -> str:
    """A stored message as it is searched: the words, then each file's name and text."""
    files = attachments_of(row.request) if row.role == "user" else ()
    return "\n".join([row.content, *(f"{file.name}\n{file.text}" for file in files)])


def attachments_of(request: Mapping[str, Any]) -> tuple[Attachment, ...]:
    """What was stored with a message. Raises TypeError or ValueError for what was not ours."""
    return tuple(_checked(Attachment(**row)) for row in request.get(KEY, ()))


def to_request(files: Sequence[Attachment]) -> dict[str, Any]:
    """The message's `request` column."""
    return {KEY: [asdict(file) for file in files]} if files else {}


def title_from(words: str, request: Mapping[str, Any]) -> str:
    """What a conversation that begins with this message is about."""
    names = (file.name for file in attachments_of(request))
    return words if words.strip() else next(names, "")


def _checked(file: Attachment) -> Attachment:
    good = isinstance(file.name, str) and isinstance(file.text, str)
    numbers = (file.size, 0 if file.tokens is None else file.tokens)
    if not good or any(type(n) is not int or not 0 <= n < 2**53 for n in numbers):
        raise ValueError("an attachment needs a name, a text and its size")
    return file
