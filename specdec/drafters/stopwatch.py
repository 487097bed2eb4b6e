"""What drafting really takes in a conversation, by the scoring call of the same round.

Costs are measured at load, on an empty cache and maybe in a busy moment; a long chat changes them.
Only the share of a round that drafting takes is looked at: a machine that is slow for a while slows
both parts. Knows sources and seconds.
"""

from __future__ import annotations

import math
from dataclasses import replace

from specdec.drafters.costs import DraftCost

_STEP = 0.1  # of what a round says is believed; more of the first ones
_MOST = math.log(4)  # a round that says more than four times as much, or as little, was disturbed


class Stopwatch:
    """By source, how many times its expected share drafting takes, as a running mean of logs."""

    def __init__(self) -> None:
        self._logs: dict[str, float] = {}
        self._rounds: dict[str, int] = {}

    def took(self, source: str, drafting: float, scoring: float) -> None:
        """Both as times of what was expected: 1 is as expected. A clock too coarse says nothing."""
        if drafting <= 0 or scoring <= 0:
            return
        said = max(-_MOST, min(_MOST, math.log(drafting / scoring)))
        self._rounds[source] = rounds = self._rounds.get(source, 0) + 1
        before = self._logs.get(source, 0.0)
        self._logs[source] = before + (said - before) * max(_STEP, 1 / (rounds + 1))

    def corrected(self, source: str, cost: DraftCost) -> DraftCost:
        """The cost as it is here. A `net` one cannot be told apart from scoring and stays."""
        times = math.exp(self._logs.get(source, 0.0))
        if cost.net or times == 1.0:
            return cost
        return replace(cost, token=cost.token * times, read=cost.read * times)
