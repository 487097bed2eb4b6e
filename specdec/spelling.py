"""The bytes a token stands for, by the two spellings that tokenizer.json files use.

Knows files and texts; nothing of models or laws, and no torch. Byte-level vocabularies write each
byte as a letter (GPT-2); piece vocabularies write a space as a low line and lone bytes as <0x0A>.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from specdec.errors import LoadError

Kind = Literal["bytes", "pieces"]

_LOW_LINE = "\u2581"
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _alphabet() -> dict[str, int]:
    """The letter that GPT-2 writes for each byte (Radford et al. 2019, its encoder.py)."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    spare = iter(range(256, 512))
    return {chr(byte) if byte in plain else chr(next(spare)): byte for byte in range(256)}


_BYTE_OF = _alphabet()
_LETTER_OF = {byte: letter for letter, byte in _BYTE_OF.items()}


@dataclass(frozen=True, slots=True)
class Spelling:
    """A vocabulary: the bytes of each word, and the text of each marker (a special token).

    The words stand in the order in which they are preferred: lone bytes behind whole pieces.
    """

    kind: Kind
    words: dict[int, bytes]
    markers: dict[int, str]


def read_spelling(folder: Path) -> Spelling:
    """The vocabulary of a model folder.

    Raises LoadError when tokenizer.json is not usable, or spells its tokens in neither way.
    """
    file = folder / "tokenizer.json"
    try:
        data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        vocab = data["model"]["vocab"]
        rows = (
            vocab.items() if isinstance(vocab, dict) else ((r[0], i) for i, r in enumerate(vocab))
        )
        texts = {int(i): str(text) for text, i in rows}
        added = {
            int(row["id"]): (str(row["content"]), bool(row.get("special", True)))
            for row in data.get("added_tokens") or ()
        }
        kind = _kind(data)
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise LoadError(f"{file} cannot be read: {error!r}.", "Fetch the model anew.") from error
    if kind is None:
        raise LoadError(
            f"{file} spells its tokens in a way that is not known here.", "Choose another draft."
        )
    markers = {i: text for i, (text, special) in added.items() if special}
    plain = {i: text.encode() for i, (text, special) in added.items() if not special}
    texts = {i: text for i, text in texts.items() if i not in added}
    order = sorted(texts, key=lambda i: (kind == "pieces" and bool(_BYTE.fullmatch(texts[i])), i))
    words = {i: spelled for i in order if (spelled := bytes_of(kind, texts[i]))}
    return Spelling(kind, {**words, **plain}, markers)


def bytes_of(kind: Kind, text: str) -> bytes | None:
    """What a word of the vocabulary stands for; None for one that stands for no text."""
    if kind == "bytes":
        try:
            return bytes([_BYTE_OF[letter] for letter in text])
        except KeyError:
            return None
    if lone := _BYTE.fullmatch(text):
        return bytes([int(lone[1], 16)])
    return text.replace(_LOW_LINE, " ").encode()


def text_of(kind: Kind, data: bytes) -> str:
    """How a vocabulary writes a few bytes that are no whole character."""
    if kind == "bytes":
        return "".join(_LETTER_OF[byte] for byte in data)
    return "".join(f"<0x{byte:02X}>" for byte in data)


def _kind(data: dict[str, Any]) -> Kind | None:
    """By what turns tokens into text again; None where that is neither."""
    decoder = data.get("decoder") or {}
    steps = decoder.get("decoders") if decoder.get("type") == "Sequence" else [decoder]
    names = {step.get("type") for step in steps or ()}
    if "ByteLevel" in names:
        return "bytes"
    return "pieces" if names & {"ByteFallback", "Metaspace"} else None
