"""A chat template cut at the places where somebody speaks. Knows text and ids, no models."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from specdec.errors import SettingError


@dataclass(frozen=True, slots=True)
class Frame:
    """Ids that the template writes, and ids that end a turn."""

    opening: tuple[int, ...]  # before the first user's words
    to_reply: tuple[int, ...]  # between a user's words and the reply
    to_user: tuple[int, ...]  # between a reply and the next user's words; empty = no second turn
    ends: frozenset[int]
    banned: tuple[int, ...]  # special ids that no turn holds


def frame_of(tokenizer: Any, ends: Iterable[int]) -> Frame:
    """Cut the tokenizer's template. Raises SettingError where there is none, or it hides words."""
    if not getattr(tokenizer, "chat_template", None):
        raise SettingError(
            "This target has no chat template, so it cannot write chats.", "Use --data FILE."
        )
    marks = [f"words{uuid.uuid4().hex}" for _ in range(3)]
    user, reply, again = marks

    def text(*turns: tuple[str, str]) -> str:
        rows = [{"role": role, "content": words} for role, words in turns]
        return str(tokenizer.apply_chat_template(rows, tokenize=False, add_generation_prompt=True))

    first = text(("user", user))
    if first.count(user) != 1:
        raise SettingError("This target's template hides the user's words.", "Use --data FILE.")
    opening, to_reply = first.split(user)
    between, whole = "", text(("user", user), ("assistant", reply), ("user", again))
    if whole.count(reply) == whole.count(again) == 1:
        between = whole.partition(reply)[2].partition(again)[0]

    def ids(piece: str) -> tuple[int, ...]:
        return tuple(tokenizer(piece, add_special_tokens=False)["input_ids"])

    stops = frozenset(ends)
    made = Frame(ids(opening), ids(to_reply), ids(between), stops, ())
    special = set(tokenizer.all_special_ids) - stops - set(made.to_reply[:1])
    if not made.opening or not made.to_reply:
        raise SettingError("This target's template marks no turns.", "Use --data FILE.")
    return Frame(made.opening, made.to_reply, made.to_user, stops, tuple(sorted(special)))
