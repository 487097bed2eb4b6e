"""Which sequences make which update: an order that follows from seed and epoch alone.

So a resumed run goes on where it was. Knows lengths of sequences; nothing of their contents.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

POOL = 64
"""Sequences of a file that are sorted by length among themselves: little padding, enough chance."""

TOGETHER = 4
"""Files that are open at once."""


@dataclass(frozen=True, slots=True)
class Pick:
    """Sequences of one file."""

    part: int
    places: tuple[int, ...]


def epoch(lengths: Mapping[int, Sequence[int]], tokens: int, seed: int, number: int) -> list[Pick]:
    """Every sequence once; at most `tokens` tokens a pick, padding included, or one sequence.

    `lengths` has those of each file. `TOGETHER` files are open at once, and their picks mixed: what
    was written and what was read lie in files of their own.
    """
    rng = random.Random(f"{seed} {number}")
    parts = sorted(lengths)
    rng.shuffle(parts)
    picks: list[Pick] = []
    for start in range(0, len(parts), TOGETHER):
        some = parts[start : start + TOGETHER]
        mixed = [pick for part in some for pick in _of_part(part, lengths[part], tokens, rng)]
        rng.shuffle(mixed)
        picks += mixed
    return picks


def _of_part(part: int, lengths: Sequence[int], tokens: int, rng: random.Random) -> list[Pick]:
    places = list(range(len(lengths)))
    rng.shuffle(places)
    picks = []
    for start in range(0, len(places), POOL):
        pool = sorted(places[start : start + POOL], key=lambda place: lengths[place])
        taken: list[int] = []
        for place in pool:
            if taken and lengths[place] * (len(taken) + 1) > tokens:
                picks.append(Pick(part, tuple(taken)))
                taken = []
            taken.append(place)
        picks.append(Pick(part, tuple(taken)))
    return picks
