"""Counts the seconds spent in model passes, of target and draft together.

The scorers of drafts are made deep inside a load, so it is their classes that are watched, for as
long as this is open. Knows scorers' methods; nothing of turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any

METHODS = (
    *("score", "score_tensor", "score_early", "prefill"),  # of a scorer
    *("absorb", "fill", "read", "follow"),  # of a trained head
)


class Passes:
    """`with Passes(classes) as passes:` ... `passes.seconds`. For a CPU, where a pass is a call."""

    def __init__(self, classes: Iterable[type]) -> None:
        self.seconds = 0.0
        self._inside = False
        self._found = [
            (owner, name)
            for owner in dict.fromkeys(base for one in classes for base in one.__mro__)
            for name in METHODS
            if callable(vars(owner).get(name))
        ]
        self._plain: list[tuple[type, str, Any]] = []

    def __enter__(self) -> Passes:
        for owner, name in self._found:
            method = vars(owner)[name]
            self._plain.append((owner, name, method))
            setattr(owner, name, self._timed(method))
        return self

    def __exit__(self, *_: object) -> None:
        while self._plain:
            owner, name, method = self._plain.pop()
            setattr(owner, name, method)

    def _timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **named: Any) -> Any:
            if self._inside:  # a method that calls another counts once
                return method(*args, **named)
            self._inside = True
            began = perf_counter()
            try:
                return method(*args, **named)
            finally:
                self.seconds += perf_counter() - began
                self._inside = False

        return timed
