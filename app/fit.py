"""What a message would come to before it is sent: tokens, and what would not fit. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from specdec.contract import Message


@dataclass(frozen=True, slots=True)
class Fit:
    """`tokens` of the prompt as it would be read; `limit`: what leaves room for the reply.

    `dropped` whole old turns (a question and its reply) would be left out to make it fit.
    """

    tokens: int
    limit: int
    context: int
    dropped: int = 0

    @property
    def fits(self) -> bool:
        return self.tokens <= self.limit


def fit(
    count: Callable[[Sequence[Message]], int],
    messages: Sequence[Message],
    limit: int,
    context: int,
) -> Fit:
    """The engine drops the oldest turns one by one (`specdec/prompt.py`): so does this, by halves.

    `count` raises what the engine's `count_tokens` raises.
    """
    tokens = count(messages)
    if tokens <= limit:
        return Fit(tokens, limit, context)
    head = [m for m in messages[:1] if m.role == "system"]
    rest = messages[len(head) :]
    starts = [i for i, m in enumerate(rest) if i > 0 and m.role == "user"]

    def after(dropped: int) -> int:
        return count([*head, *rest[starts[dropped - 1] :]]) if dropped else tokens

    if not starts or (least := after(len(starts))) > limit:
        return Fit(least if starts else tokens, limit, context, len(starts))
    dropped = bisect_left(range(len(starts)), -limit, key=lambda n: -after(n))
    return Fit(after(dropped), limit, context, dropped)
