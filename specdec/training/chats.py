"""Training text as token ids: read from a file, cut to length, some of it held out.

Knows chats and the tokenizer; nothing of models, states or training.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specdec.errors import SettingError

LENGTH = 512
"""Most tokens of a sequence: the head's layer learns to look that far back."""

SHORTEST = 8
"""Tokens below which a sequence has nothing to draft at depth 4."""

HELD, MOST_HELD = 20, 64
"""About one sequence in so many is held out, at least one and at most so many."""

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Chat:
    """Token ids, and which of them a model said: acceptance is measured there."""

    ids: tuple[int, ...]
    replies: tuple[Span, ...]  # [start, end)

    @property
    def digest(self) -> bytes:
        """What tells it from others; a fixed shuffle, too."""
        return digest(self.ids)


def digest(ids: Sequence[int]) -> bytes:
    """What stands for a sequence."""
    return hashlib.sha256(struct.pack(f"<{len(ids)}I", *ids)).digest()


def read_chats(file: Path, tokenizer: Any, length: int = LENGTH) -> Iterator[Chat]:
    """The rows of a JSONL file: {"messages": [{"role", "content"}, ...]} or {"text": "..."}.

    Raises SettingError naming file and row for one that is neither.
    """
    for number, line in enumerate(_lines(file), 1):
        if line.strip():
            try:
                row = list(_row(json.loads(line), tokenizer, length))
            except Exception as error:  # a template raises whatever it likes
                raise SettingError(
                    f"{file}, row {number}: {error}.",
                    'A row is {"messages": [{"role": "user", "content": "..."}, ...]}'
                    ' or {"text": "..."}.',
                ) from error
            yield from row


def _lines(file: Path) -> Iterator[str]:
    """A line at a time; a row may hold other ends of lines than the newline."""
    try:
        with file.open(encoding="utf-8-sig", newline="\n") as lines:
            yield from lines
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"{file} cannot be read: {error}.", "Check --data.") from error


def sample(chats: Iterable[Chat], tokens: int) -> list[Chat]:
    """The first by digest, just over `tokens` tokens at most: of a larger file, a fixed part.

    More tokens add to it, and no more than that is in memory at once.
    """
    heap: list[tuple[int, int, Chat]] = []
    total = 0
    for number, chat in enumerate(chats):
        heapq.heappush(heap, (-int.from_bytes(chat.digest, "big"), number, chat))
        total += len(chat.ids)
        while total - len(heap[0][2].ids) >= tokens:
            total -= len(heapq.heappop(heap)[2].ids)
    return [chat for *_, chat in sorted(heap, reverse=True)]


def _row(row: Any, tokenizer: Any, length: int) -> Iterator[Chat]:
    if isinstance(row, dict) and isinstance(row.get("text"), str):
        return _pieces(row["text"], tokenizer, length)
    if not isinstance(row, dict) or not isinstance(row.get("messages"), list):
        raise ValueError('it has neither "messages" nor "text"')
    messages = row["messages"]
    for place, message in enumerate(messages):
        if not isinstance(message, dict) or not all(
            isinstance(message.get(name), str) for name in ("role", "content")
        ):
            raise ValueError(f"messages[{place}] has no role and content")
    return iter((_conversation(messages, tokenizer, length),))


def _pieces(text: str, tokenizer: Any, length: int) -> Iterator[Chat]:
    """Text cut to length; where the tokenizer begins text with a token, each piece begins so."""
    ids = tuple(tokenizer(text, add_special_tokens=False)["input_ids"])
    first = tokenizer("a")["input_ids"][0]
    opening = (first,) if first == tokenizer.bos_token_id else ()
    room = length - len(opening)
    for start in range(0, len(ids), room):
        piece = (*opening, *ids[start : start + room])
        yield Chat(piece, ((len(opening), len(piece)),))


def _conversation(messages: list[Any], tokenizer: Any, length: int) -> Chat:
    """A reply is what stands between the prompt that asks for it and the text that follows."""

    def text(count: int, ask: bool) -> str:
        return str(
            tokenizer.apply_chat_template(
                messages[:count], tokenize=False, add_generation_prompt=ask
            )
        )

    whole, ids, spans = text(len(messages), False), list[int](), list[Span]()
    done = 0
    for place, message in enumerate(messages):
        before, after = text(place, True) if place else "", text(place + 1, False)
        if message["role"] != "assistant" or not whole.startswith(before) or not place:
            continue
        if not whole.startswith(after) or len(before) < done:
            continue  # the template rewrites earlier turns: this one is text like any other
        ids += _ids(tokenizer, whole[done : len(before)])
        reply = _ids(tokenizer, whole[len(before) : len(after)])
        spans.append((len(ids), len(ids) + len(reply)))
        ids += reply
        done = len(after)
    ids += _ids(tokenizer, whole[done:])
    return _cut(ids, spans, length)


def _cut(ids: Sequence[int], spans: Iterable[Span], length: int) -> Chat:
    kept = tuple((start, min(end, length)) for start, end in spans if start < length)
    return Chat(tuple(ids[:length]), kept)


def _ids(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"]) if text else []


def split(own: Iterable[Chat], data: Iterable[Chat]) -> tuple[list[Chat], list[Chat]]:
    """Training and held-out sequences: chats the target wrote in their order, data in another.

    Held out are chats that the target wrote, where there are any: what it says is what a head must
    guess. They are the first, and each whose digest says so, until there are MOST_HELD. That
    depends on the chats before alone, so chats that are written later move none to the other side.
    One text is never on both sides. Raises SettingError where there is too little.
    """
    wrote = _distinct(own)
    read = dict(sorted(_distinct(data).items()))  # an order that follows from the text
    replies = _with_replies(wrote) or _with_replies(read)
    order = wrote | read
    if len(order) < 2 or not replies:
        raise SettingError(
            f"There is too little to learn from: {len(order)} different sequences of at least"
            f" {SHORTEST} tokens, {len(replies)} with a reply.",
            "Give more rows, or let the target write more with --self-generate.",
        )
    held = [chat for place, chat in enumerate(replies) if not place or _is_held(chat)][:MOST_HELD]
    out = {chat.digest for chat in held}
    return [chat for key, chat in order.items() if key not in out], held


def _distinct(chats: Iterable[Chat]) -> dict[bytes, Chat]:
    """By digest, each once, where it came first."""
    found: dict[bytes, Chat] = {}
    for chat in chats:
        if len(chat.ids) >= SHORTEST:
            found.setdefault(chat.digest, chat)
    return found


def _with_replies(chats: dict[bytes, Chat]) -> list[Chat]:
    """Those with enough of a reply to measure acceptance on."""
    return [c for c in chats.values() if any(end - start > 4 for start, end in c.replies)]


def _is_held(chat: Chat) -> bool:
    return int.from_bytes(chat.digest[:4], "big") % HELD == 0
