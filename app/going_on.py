"""A stopped reply that goes on: whether it can, by which request, from which snapshot. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from app.by_hand import by_hand
from app.check import made_by
from app.live import Live, facts_from
from app.records import StoredMessage
from app.words import tr
from specdec.contract import ChatRequest
from specdec.errors import HistoryError, SettingError


def can_go_on(row: StoredMessage) -> bool:
    """Whether it ended before the model wanted to, and enough is known to go on exactly.

    One that was cut where the context is full cannot.
    """
    facts = facts_from(row.metrics, row.request)
    known = row.role == "assistant" and bool(row.ids) and bool(facts.prompt) and not by_hand(row)
    cut = row.state in ("partial", "interrupted") or facts.reason == "length"
    return known and cut and facts.reason not in ("end", "stop", "context")


def request_of(rows: Sequence[StoredMessage], message: int, remember: bool) -> ChatRequest:
    """The request that goes on with the last of these turns, with the settings that began it.

    Raises HistoryError when that is another turn by now, SettingError where it cannot go on.
    """
    if not rows or rows[-1].id != message:
        raise HistoryError(tr("Only the last reply can go on."), tr("Reload the page."))
    if not can_go_on(rows[-1]):
        raise SettingError(tr("This reply cannot go on."), tr("Regenerate it."))
    reply, facts = made_by(rows, rows[-1]), facts_from(rows[-1].metrics, rows[-1].request)
    return replace(
        reply.request,
        mode=facts.mode,
        k=facts.k,
        fresh=False,
        remember=remember,
        begun=reply.ids,
        prompt=facts.prompt,
    )


def begun(row: StoredMessage) -> Live:
    """The snapshot to go on from: what is there, and how it was made."""
    facts = facts_from(row.metrics, row.request)
    return Live(
        text=row.content,
        ids=row.ids,
        trace=tuple(str(row.request.get("trace", "")).split()),
        metrics=facts.metrics,
        notices=facts.notices,
        rule=facts.rule,
        k=facts.k,
        earlier=facts,
    )
