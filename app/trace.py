"""Where the tokens of a reply came from, round by round: kept with it, and shown. Pure.

Stored as short text, since a reply has hundreds of rounds: "3/2k9b4" is a round that drafted 3
tokens and kept 2, whose text is 9 characters of kept drafts and 4 of the bonus token.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from specdec.contract import MAX_K, Round, Span, SpanKind

KINDS: dict[str, SpanKind] = {"k": "kept", "c": "corrected", "b": "bonus"}
LETTERS: dict[SpanKind, str] = {kind: letter for letter, kind in KINDS.items()}


@dataclass(frozen=True, slots=True)
class Made:
    """One round: tokens drafted and kept, and the lengths of its text by kind."""

    drafted: int
    accepted: int
    spans: tuple[tuple[SpanKind, int], ...]


def note(event: Round) -> str:
    """A round as it is stored."""
    text = "".join(LETTERS[span.kind] + str(span.end - span.start) for span in _joined(event.spans))
    return f"{event.drafted}/{event.accepted}{text}"


def read(stored: str) -> tuple[Made, ...]:
    """The rounds of a stored reply; () for what this did not write."""
    rounds = []
    for part in stored.split():
        match = re.fullmatch(r"(\d+)/(\d+)((?:[kcb]\d+)*)", part)
        if match is None or not int(match[2]) <= int(match[1]) <= MAX_K:
            return ()
        spans = re.findall(r"([kcb])(\d+)", match[3])
        made = tuple((KINDS[letter], int(length)) for letter, length in spans)
        rounds.append(Made(int(match[1]), int(match[2]), made))
    return tuple(rounds)


def depths(rounds: Sequence[Made]) -> tuple[tuple[int, int], ...]:
    """By place in the draft: how many tokens were tried there, and how many of them were kept.

    A token is tried where all before it were kept; what follows the first refused says nothing.
    """
    deepest = max((made.drafted for made in rounds), default=0)
    found = []
    for depth in range(1, deepest + 1):
        tried = [made for made in rounds if made.drafted >= depth and made.accepted >= depth - 1]
        found.append((len(tried), sum(made.accepted >= depth for made in tried)))
    return tuple(found)


def _joined(spans: Sequence[Span]) -> list[Span]:
    """Neighbours of one kind as one."""
    out: list[Span] = []
    for span in spans:
        if out and out[-1].kind == span.kind and out[-1].end == span.start:
            out[-1] = Span(out[-1].start, span.end, span.kind)
        elif span.end > span.start:
            out.append(span)
    return out
