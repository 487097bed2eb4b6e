"""Which ids of a draft and of a target stand for the same bytes: built once a pair, then read.

Knows two vocabularies and a folder of small files; nothing of models or laws, and no torch.
The intersection of Timor et al. 2025 (arXiv 2502.05202, token-level intersection).
"""

from __future__ import annotations

import logging
import os
import struct
import sys
import tempfile
import zlib
from array import array
from dataclasses import dataclass
from pathlib import Path

from specdec.folder import fingerprint
from specdec.spelling import Kind, Spelling, read_spelling

MOST_FILES = 16
"""Pairs kept, each at most about a megabyte; the one not used for the longest gives way."""

_MAGIC = b"specdec tokens 1\n"
_HEAD = struct.Struct("<BBIIII")  # kinds, size of the draft's vocabulary, pairs, markers, checksum
_KINDS: tuple[Kind, ...] = ("bytes", "pieces")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TokenTable:
    """`words[i]` is a draft's id and the target's id of the same bytes, one to one; `markers` are
    the special tokens of equal text. `of` counts the draft's words, shared or not."""

    draft: Kind
    target: Kind
    of: int
    words: tuple[tuple[int, int], ...]
    markers: tuple[tuple[int, int], ...]

    @property
    def share(self) -> float:
        """How many of the draft's words the target has as well: 0 to 1."""
        return len(self.words) / self.of if self.of else 0.0


def open_table(target: Path, draft: Path, data_dir: Path) -> TokenTable:
    """The table of two model folders, from the data folder where it lies there.

    Raises LoadError for a tokenizer that cannot be read as bytes. A table that cannot be kept is
    built anew the next time, and the log says so.
    """
    name = f"{fingerprint(draft)[:24]}-{fingerprint(target)[:24]}"
    file = data_dir / "tables" / f"{name}.table"
    if (known := _read(file)) is not None:
        return known
    table = build(read_spelling(target), read_spelling(draft))
    try:
        _write(file, table)
    except OSError as error:
        _log.warning("the token table %s cannot be kept: %s", file, error)
    return table


def build(target: Spelling, draft: Spelling) -> TokenTable:
    """Pair equal bytes. Of several ids that stand for the same bytes the preferred one is taken."""
    ours = _first(target.words)
    words = [(i, ours[data]) for data, i in _first(draft.words).items() if data in ours]
    marks = {text: i for i, text in target.markers.items()}
    markers = [(i, marks[text]) for i, text in sorted(draft.markers.items()) if text in marks]
    return TokenTable(draft.kind, target.kind, len(draft.words), tuple(words), tuple(markers))


def _first(words: dict[int, bytes]) -> dict[bytes, int]:
    found: dict[bytes, int] = {}
    for i, data in words.items():
        found.setdefault(data, i)
    return found


def _write(file: Path, table: TokenTable) -> None:
    """Whole and at once. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    body = b"".join(_packed(pairs) for pairs in (table.words, table.markers))
    head = _HEAD.pack(
        _KINDS.index(table.draft),
        _KINDS.index(table.target),
        table.of,
        len(table.words),
        len(table.markers),
        zlib.crc32(body),
    )
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(_MAGIC + file.stem.encode() + b"\n" + head + body)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    old = sorted(file.parent.glob("*.table"), key=lambda path: path.stat().st_mtime)
    for path in old[:-MOST_FILES]:
        path.unlink(missing_ok=True)


def _read(file: Path) -> TokenTable | None:
    """None for no file, and for one that is not ours, damaged or of another version."""
    try:
        data = file.read_bytes()
        os.utime(file)
        return _parsed(data, _MAGIC + file.stem.encode() + b"\n")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, struct.error, IndexError) as error:
        _log.warning("the token table %s cannot be used and is built anew: %s", file, error)
        return None


def _parsed(data: bytes, magic: bytes) -> TokenTable:
    """Raises ValueError, struct.error or IndexError for anything but what `_write` wrote."""
    if not data.startswith(magic):
        raise ValueError("it is another kind of file, or another pair's")
    draft, target, of, words, markers, checksum = _HEAD.unpack_from(data, len(magic))
    body = data[len(magic) + _HEAD.size :]
    if len(body) != 8 * (words + markers) or zlib.crc32(body) != checksum:
        raise ValueError("it is damaged")
    return TokenTable(
        _KINDS[draft], _KINDS[target], of, _pairs(body[: 8 * words]), _pairs(body[8 * words :])
    )


def _packed(pairs: tuple[tuple[int, int], ...]) -> bytes:
    return _little(array("I", [i for pair in pairs for i in pair])).tobytes()


def _pairs(data: bytes) -> tuple[tuple[int, int], ...]:
    flat = array("I")
    flat.frombytes(data)
    flat = _little(flat)
    return tuple(zip(flat[::2], flat[1::2], strict=True))


def _little(numbers: array[int]) -> array[int]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def end_pairs(
    table: TokenTable,
    draft: frozenset[int],
    target: frozenset[int],
    eos: tuple[int | None, int | None],
) -> tuple[tuple[int, int], ...]:
    """End ids that mean the same: markers of equal text, and the two that end a reply.

    `eos` are the draft's own and the target's own; each id stands in at most one pair.
    """
    pairs = [pair for pair in table.markers if pair[0] in draft and pair[1] in target]
    mine, theirs = eos
    free = all(mine != a and theirs != b for a, b in pairs)
    if mine is not None and theirs is not None and free and mine in draft and theirs in target:
        pairs.append((mine, theirs))
    return tuple(pairs)
