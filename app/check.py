"""One reply's comparison with plain decoding: where it stands, and the request to repeat. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from app.live import facts_from
from app.records import StoredMessage
from app.transcript import prompt_of
from app.words import tr
from specdec.contract import ChatRequest, Comparison, ErrorInfo, Pair, Reply, Sampling
from specdec.errors import SettingError


@dataclass(frozen=True, slots=True)
class Check:
    """Where one reply's comparison stands. Done without a comparison or an error: it was stopped.

    `position` jobs are done before it.
    """

    step: Literal["waiting", "comparing", "done"] = "waiting"
    position: int = 0
    comparison: Comparison | None = None
    error: ErrorInfo | None = None


def made_by(rows: Sequence[StoredMessage], row: StoredMessage) -> Reply:
    """The request that made a stored reply, rebuilt from what is stored with it, and its ids.

    `rows`: the branch that holds it. Raises SettingError where that cannot be done or compared,
    with the reason.
    """
    facts, kept = facts_from(row.metrics, row.request), row.request
    if row.role != "assistant" or not row.ids or facts.seed is None:
        raise SettingError(
            tr("There are no words to compare."), tr("Only a reply can be verified.")
        )
    if "system" not in kept or "sampling" not in kept:
        raise SettingError(
            tr(
                "This reply was written by an earlier version of this program, "
                "which kept too little."
            ),
            tr("Regenerate it; then it can be verified."),
        )
    try:
        sampling = Sampling(**{**kept["sampling"], "stop": tuple(kept["sampling"]["stop"])})
    except (TypeError, KeyError, ValueError) as error:
        raise SettingError(
            tr("The settings of this reply cannot be read: {error}.", error=repr(error)),
            tr("Regenerate it."),
        ) from error
    before = [other for other in rows if other.id < row.id]
    request = ChatRequest(
        prompt_of(before, kept["system"]),
        replace(sampling, seed=facts.seed),
        "standard",
        facts.rule,
        conversation=row.conversation,
        fresh=True,
        runner=facts.runner or "auto",
    )
    return Reply(request, row.ids, facts.reason or "", facts.prompt)


def check_loaded(row: StoredMessage, pair: Pair | None, hint: str) -> None:
    """Raises SettingError with this hint where another model is loaded than wrote this reply."""
    if pair is None:
        raise SettingError(tr("No model is loaded yet."), tr("Try again when one is."))
    wrote = [str(row.request.get(name, "")) for name in ("target", "dtype", "device")]
    loaded = [pair.target.value, pair.dtype.value, pair.device.value]
    if wrote != loaded:
        raise SettingError(
            tr(
                "This reply was written by {wrote}; loaded is {loaded}.",
                wrote=_named(wrote),
                loaded=_named(loaded),
            ),
            hint,
        )


def _named(what: list[str]) -> str:
    target, dtype, device = what
    return tr(
        "{target} in {dtype} on {device}",
        target=target or tr("another model"),
        dtype=dtype or tr("another dtype"),
        device=device or tr("a device"),
    )
