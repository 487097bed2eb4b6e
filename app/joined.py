"""A reply made in two goes: its figures and its rounds as those of one. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from specdec.metrics import Metrics


def joined(base: Metrics, more: Metrics) -> Metrics:
    """Counts and times of both. What was waited for the first token is the first part's."""
    if base == Metrics():
        return more
    return replace(
        base,
        prompt_tokens=more.prompt_tokens or base.prompt_tokens,
        new_tokens=base.new_tokens + more.new_tokens,
        rounds=base.rounds + more.rounds,
        drafted=base.drafted + more.drafted,
        accepted=base.accepted + more.accepted,
        first_token_s=base.first_token_s if base.rounds else more.first_token_s,
        decode_s=base.decode_s + more.decode_s,
        draft_s=base.draft_s + more.draft_s,
        first_round_tokens=base.first_round_tokens + more.first_round_tokens,
    )


def cut(trace: Sequence[str], length: int) -> tuple[str, ...]:
    """A trace (`app.trace`) of the text's first `length` characters.

    What a stop released at the end, half a character or half a stop string, may not stand.
    """
    out, left = [], length
    for word in trace:
        kept = re.sub(r"([kcb]\d+)+$", "", word)
        for kind, count in re.findall(r"([kcb])(\d+)", word):
            if (some := min(int(count), left)) > 0:
                kept += f"{kind}{some}"
                left -= some
        out.append(kept)
    return tuple(out)
