"""What a draft is worth: from costs measured at load and drafts kept so far. Never a guess."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.history import History
from app.live import facts_from
from app.words import tr
from specdec.contract import DraftOption, Pace, Pair
from specdec.pairing import AUTO, NONE

LOOK_BACK = 20
"""Conversations whose replies count: newer ones say more of what is asked here."""
ENOUGH = 50
"""Drafted tokens below which a share says little."""


@dataclass(frozen=True, slots=True)
class Record:
    """Drafted tokens of earlier replies, and how many were kept."""

    drafted: int = 0
    kept: int = 0

    @property
    def share(self) -> float:
        return self.kept / self.drafted if self.drafted else 0.0


def records(history: History, target: str) -> dict[str, Record]:
    """By draft, from the owner's latest conversations with this target."""
    found: dict[str, Record] = {}
    for chat in history.conversations()[:LOOK_BACK]:
        for row in history.messages(chat.id):
            facts = facts_from(row.metrics, row.request)
            if row.role == "assistant" and facts.target == target and facts.metrics.drafted:
                old = found.get(facts.draft, Record())
                found[facts.draft] = Record(
                    old.drafted + facts.metrics.drafted, old.kept + facts.metrics.accepted
                )
    return found


def predicted(pace: Pace, cost: float, share: float) -> float:
    """Tokens a second over plain decoding's, at the best draft length, if each drafted token is
    kept with probability `share` given those before it (DESIGN 6)."""
    best, tokens, chance = 0.0, 1.0, 1.0
    for k, score in enumerate(pace.score):
        if k:
            chance *= share
            tokens += chance
        best = max(best, tokens / (k * cost + score))
    return best * pace.plain


def told(option: DraftOption, pair: Pair, known: Mapping[str, Record]) -> str:
    """One draft's gain in words, with where it comes from."""
    if option.id == NONE:
        return tr("plain decoding: 1.0 x")
    if option.verdict == "rejected" and not option.usable:
        return tr("none")
    record = known.get(option.id, Record())
    if record.drafted < ENOUGH:
        return tr("not measured yet")
    kept = tr(
        "{share} of {n} drafted tokens kept so far",
        share=f"{record.share:.0%}",
        n=f"{record.drafted:,}",
    )
    if option.id != pair.draft.value or pair.pace is None or option.id == AUTO:
        return tr("{kept}; its speed is measured when it is loaded", kept=kept)
    cost = dict(pair.pace.drafts).get(option.id, 0.0)
    gain = f"{predicted(pair.pace, cost, record.share):.1f}"
    return tr("about {gain} x plain: {kept}", gain=gain, kept=kept)
