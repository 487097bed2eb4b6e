"""Tokens that a job made, whatever its kind. Pure."""

from __future__ import annotations

from app.check import Check
from app.live import Live
from app.series import SeriesView


def tokens_of(snapshot: object) -> int:
    """Of a reply, both lanes and the probe of the last race, what a comparison decoded; else 0."""
    match snapshot:
        case Live():
            return snapshot.metrics.new_tokens - snapshot.base.new_tokens
        case SeriesView():
            now = snapshot.now
            lanes = (now.speculative, now.standard, now.probe)
            return sum(lane.metrics.new_tokens for lane in lanes if lane is not None)
        case Check():
            return snapshot.comparison.compared if snapshot.comparison else 0
    return 0
