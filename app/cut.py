"""Where the prompt of the last reply began, when older messages did not fit. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.records import StoredMessage
from app.transcript import answer_of
from app.words import tr_n


@dataclass(frozen=True, slots=True)
class Cut:
    """`first` is the id of the first message that was read; `left_out` counts those above it."""

    first: int
    left_out: int


def cut_of(rows: Sequence[StoredMessage]) -> Cut | None:
    """What the last reply of these turns left out; None when it read everything.

    Follows `transcript.prompt_of` and `specdec/prompt.py`: a turn ends before the next message of
    the user, where messages without a reply between them are one.
    """
    last = next((i for i in reversed(range(len(rows))) if rows[i].role == "assistant"), None)
    if last is None:
        return None
    dropped = int(rows[last].request.get("dropped_turns", 0))
    if dropped < 1:
        return None
    read = [row for row in rows[:last] if row.role == "user" or answer_of(row)]
    starts = [
        i for i, row in enumerate(read) if i and row.role == "user" and read[i - 1].role != "user"
    ]
    if not starts:
        return None
    at = starts[min(dropped, len(starts)) - 1]
    return Cut(read[at].id, at)


def line(cut: Cut | None, message: int) -> str:
    """What stands above a message: a thin line with words above the first that was read."""
    if cut is None or cut.first != message:
        return ""
    text = tr_n(
        "The message above did not fit and was left out of the last reply",
        "The {n} messages above did not fit and were left out of the last reply",
        cut.left_out,
    )
    return f'<p class="cut">{text}</p>'
