"""Messages -> prompt ids by the model's own chat template; whole old turns dropped when too long.

Knows the tokenizer and its template; nothing of models, laws or caches.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from specdec.errors import PromptError
from specdec.request import ChatRequest, Message


@dataclass(frozen=True, slots=True)
class Prompt:
    """Token ids that end where the reply begins, and what was left out to make them fit.

    `thinking`: the template began a thought, which the reply goes on with (B05).
    """

    ids: tuple[int, ...]
    dropped_turns: int = 0
    notice: str = ""
    thinking: bool = False


_THINKS = re.compile(r"<(?:think|thinking|thought|reasoning)>\s*$")


class PromptBuilder:
    """`tokenizer` is a fast transformers tokenizer; template and encode are the model's own.

    `vocab`: ids from there on have no row in the model; None where all have.
    """

    def __init__(self, tokenizer: Any, vocab: int | None = None) -> None:
        self._tokenizer = tokenizer
        self._vocab = vocab
        self._known = {"system", "user", "assistant"}

    def build(self, messages: Sequence[Message], limit: int) -> Prompt:
        """At most `limit` ids. Keeps the system prompt and the last turn, drops the oldest (C11).

        Raises PromptError when the last turn alone is too long, a role is unknown (C04), or a word
        has no row in the model.
        """
        self._check(messages)
        head = [m for m in messages[:1] if m.role == "system"]
        rest = list(messages[len(head) :])
        dropped = 0
        while True:
            ids, notice = self._encode([*head, *rest])
            if len(ids) <= limit:
                self._check_rows(ids)
                end = self._tokenizer.decode(ids[-16:], skip_special_tokens=False)
                return Prompt(tuple(ids), dropped, notice, bool(_THINKS.search(str(end))))
            cut = next((i for i, m in enumerate(rest) if i > 0 and m.role == "user"), None)
            if cut is None:
                raise PromptError(
                    f"The message takes {len(ids)} tokens with its system prompt; {limit} fit.",
                    "Shorten it, or choose a model with a longer context.",
                )
            rest = rest[cut:]
            dropped += 1

    def of(self, request: ChatRequest, limit: int) -> Prompt:
        """The prompt a request asks for, at most `limit` ids. Raises PromptError as `build`."""
        if not request.raw:
            return self.build(request.messages, limit)
        ids = self._begun(request.messages[0].content)
        if not ids:
            raise PromptError("The text is empty.", "Send some to go on with.")
        if len(ids) > limit:
            raise PromptError(f"The text takes {len(ids)} tokens; {limit} fit.", "Shorten it.")
        self._check_rows(ids)
        return Prompt(tuple(ids))

    def count(self, messages: Sequence[Message]) -> int:
        """Tokens of the whole prompt, nothing dropped."""
        self._check(messages)
        return len(self._encode(messages)[0])

    def _check(self, messages: Sequence[Message]) -> None:
        if not messages:
            raise PromptError("The conversation is empty.", "Write a message first.")
        for m in messages:
            if m.role not in self._known:
                raise PromptError(
                    f"The role {m.role!r} is unknown.", "Use system, user or assistant."
                )

    def _check_rows(self, ids: Sequence[int]) -> None:
        if self._vocab is not None and (token := max(ids, default=0)) >= self._vocab:
            word = self._tokenizer.convert_ids_to_tokens(int(token))
            raise PromptError(
                f"The text holds {word!r}, which the tokenizer knows and the model does not.",
                "Leave it out, or choose another model.",
            )

    def _encode(self, messages: Sequence[Message]) -> tuple[list[int], str]:
        """Ids with each reply's own ids spliced in where the template shows it verbatim (C10).

        Splitting at the reply is what generation itself saw: the prompt ended there.
        """
        text, notice, used = self._render(messages)
        replies = {i: self._own(m) for i, m in enumerate(used) if m.role == "assistant"}
        own = {i: ids for i, ids in replies.items() if ids}
        if not own:
            return self._first(text), notice
        marks = {i: f"reply-{uuid.uuid4().hex}" for i in own}
        marked = [Message(m.role, marks.get(i, m.content)) for i, m in enumerate(used)]
        frame, _, _ = self._render(marked)
        plain = frame
        for i, mark in marks.items():
            plain = plain.replace(mark, used[i].content)
        if plain != text or any(frame.count(mark) != 1 for mark in marks.values()):
            return self._first(text), notice  # the template rewrites replies: encode as it says
        ids: list[int] = []
        for i, mark in marks.items():
            before, frame = frame.split(mark, 1)
            ids += self._ids(before) if ids else self._first(before)
            ids += own[i]
        return ids + self._ids(frame), notice

    def _render(self, messages: Sequence[Message]) -> tuple[str, str, list[Message]]:
        """Text, notice, and the messages as the template took them."""
        if not getattr(self._tokenizer, "chat_template", None):
            lines = "".join(f"{m.role.capitalize()}: {m.content}\n\n" for m in messages)
            notice = "This model has no chat template: the conversation is sent as plain text."
            return lines + "Assistant:", notice, list(messages)
        try:
            return self._template(messages), "", list(messages)
        except PromptError:
            folded = _fold_system(messages)
            if folded is None:
                raise
            notice = "This model takes no system prompt: it stands before your first message."
            return self._template(folded), notice, folded

    def _template(self, messages: Sequence[Message]) -> str:
        rows = [{"role": m.role, "content": m.content} for m in messages]
        try:
            text = self._tokenizer.apply_chat_template(
                rows, tokenize=False, add_generation_prompt=True
            )
        except Exception as error:  # templates raise whatever they like, through jinja
            raise PromptError(
                f"The model's chat template refuses this conversation: {error}",
                "Start a new conversation, or remove the message it names.",
            ) from error
        return str(text)

    def _first(self, text: str) -> list[int]:
        """Ids of the prompt's first piece: a template wrote every special token itself (C06)."""
        if getattr(self._tokenizer, "chat_template", None):
            return self._ids(text)
        return self._begun(text)

    def _begun(self, text: str) -> list[int]:
        """Ids of text with what the tokenizer begins it with.

        What it adds at the end is taken off again: the reply goes on from here (C06). What the
        text itself begins or ends with stays, once.
        """
        own = self._ids(text)
        ids = list(self._tokenizer(text, add_special_tokens=True)["input_ids"])
        end, begin = self._tokenizer.eos_token_id, self._tokenizer.bos_token_id
        added = _run(reversed(ids), end) - _run(reversed(own), end)
        ids = ids[: len(ids) - added] if added > 0 else ids
        return ids[1:] if own[:1] == [begin] == ids[1:2] and ids[0] == begin else ids

    def _ids(self, text: str) -> list[int]:
        """The template wrote every special token itself, so none is added (C06)."""
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"]) if text else []

    def _own(self, reply: Message) -> Sequence[int]:
        """A reply's own ids that say its text: all, or the last where its thought is left out.

        None where it was edited.
        """
        first, last = 0, len(reply.ids)
        while first < last:  # the longest end that is no longer than the text
            middle = (first + last) // 2
            if len(decode(self._tokenizer, reply.ids[middle:])) > len(reply.content):
                first = middle + 1
            else:
                last = middle
        own = reply.ids[first:]
        return own if own and decode(self._tokenizer, own) == reply.content else ()


def decode(tokenizer: Any, ids: Sequence[int]) -> str:
    """Text of `ids`: special tokens skipped, spaces left as they are."""
    return str(
        tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
    )


def _run(ids: Iterable[int], token: int | None) -> int:
    """How many of the first ids are `token`."""
    return sum(1 for _ in takewhile(lambda other: other == token, ids))


def _fold_system(messages: Sequence[Message]) -> list[Message] | None:
    """The system prompt put into the first user turn, where a template has no such role (C02)."""
    if len(messages) < 2 or messages[0].role != "system" or messages[1].role != "user":
        return None
    first = Message("user", f"{messages[0].content}\n\n{messages[1].content}")
    return [first, *messages[2:]]
