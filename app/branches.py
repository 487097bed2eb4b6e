"""A conversation as a tree: which messages are shown, and what stands beside each. Pure.

A message knows its parent (0: it begins the conversation), which is always older. Of those with one
parent one is shown; a branch that is left keeps its own choices below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar


class Node(Protocol):
    """A stored message, or as much of it as a tree needs."""

    @property
    def id(self) -> int: ...
    @property
    def parent(self) -> int: ...
    @property
    def shown(self) -> bool: ...


N = TypeVar("N", bound=Node)


def path(rows: Iterable[N]) -> list[N]:
    """The branch that is shown, oldest first; the latest where nothing was chosen."""
    below, found = _below(rows), list[N]()
    while children := below.get(found[-1].id if found else 0):
        found.append(next((row for row in reversed(children) if row.shown), children[-1]))
    return found


def lineage(rows: Iterable[N], message: int) -> list[N]:
    """The branch from its beginning to this message; empty where there is none."""
    by_id = {row.id: row for row in rows}
    found = list[N]()
    while (row := by_id.get(message)) is not None and row.parent < row.id:
        found.append(row)
        message = row.parent
    return found[::-1]


def versions(rows: Sequence[N]) -> Mapping[int, tuple[int, ...]]:
    """For each message shown that has others beside it: the ids of all, the oldest first."""
    below = _below(rows)
    beside = {row.id: tuple(other.id for other in below[row.parent]) for row in path(rows)}
    return {message: ids for message, ids in beside.items() if len(ids) > 1}


def _below(rows: Iterable[N]) -> dict[int, list[N]]:
    found: dict[int, list[N]] = {}
    for row in sorted(rows, key=lambda row: row.id):
        found.setdefault(row.parent, []).append(row)
    return found
