"""A saved conversation read back: what `export` wrote as JSON, checked field by field."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import cache
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from app import bubbles
from app.live import Facts, facts_from
from app.records import MessageRole, MessageState, StoredMessage
from app.words import tr
from specdec.contract import Sampling
from specdec.errors import SettingError

OLD = "specdec-chat 1"
MOST = 20_000
"""Messages of a file; far above any conversation."""


class _Texts(BaseModel):
    """What a reply's `request` holds beside its facts."""

    system: str = ""
    dtype: str = ""
    device: str = ""
    trace: str = ""
    sampling: Sampling | None = None


@cache
def _facts() -> TypeAdapter[Facts]:
    """Making one takes longer than a turn takes to check."""
    return TypeAdapter(Facts)


class _Turn(BaseModel):
    """A message. What is kept with a reply is shown later: it is looked at now."""

    model_config = ConfigDict(extra="ignore")

    id: int = 0
    parent: int = 0
    shown: bool = True
    role: MessageRole
    content: str
    ids: tuple[Annotated[int, Field(ge=0, lt=2**31)], ...] = ()
    state: MessageState = "complete"
    metrics: dict[str, Any] = {}
    request: dict[str, Any] = {}

    @model_validator(mode="after")
    def _as_shown(self) -> Self:
        try:
            facts = json.dumps(asdict(facts_from(self.metrics, self.request)))
            _facts().validate_json(facts, strict=True)
            row = StoredMessage(
                1, "", self.role, self.content, self.ids, self.state, self.metrics, self.request
            )
            bubbles.reply(row, opened=True)
            bubbles.user(row)
        except ValidationError:
            raise
        except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise ValueError(f"its figures cannot be shown: {error}") from error
        try:
            _Texts.model_validate(self.request)
        except SettingError as error:
            raise ValueError(str(error)) from error
        return self


class Saved(BaseModel):
    """A whole conversation; it gets an id of its own, so nothing that is here is replaced."""

    model_config = ConfigDict(extra="ignore")

    format: Literal["specdec-chat 1", "specdec-chat 2"]
    title: Annotated[str, Field(max_length=200)] = ""
    system: str = ""
    pinned: bool = False
    messages: Annotated[tuple[_Turn, ...], Field(max_length=MOST)] = ()

    @model_validator(mode="after")
    def _a_tree(self) -> Self:
        known, last = {0}, 0
        for at, turn in enumerate(self.messages if self.format != OLD else ()):
            if turn.id <= last or turn.parent not in known:
                raise ValueError(f"message {at} does not follow one that stands before it")
            known.add(last := turn.id)
        return self

    def rows(self) -> list[StoredMessage]:
        """Its turns, parents first; they get other ids when they are stored."""
        old = self.format == OLD  # one branch
        return [
            StoredMessage(
                at if old else t.id,
                "",
                t.role,
                t.content,
                t.ids,
                t.state,
                t.metrics,
                t.request,
                parent=at - 1 if old else t.parent,
                shown=old or t.shown,
            )
            for at, t in enumerate(self.messages, 1)
        ]


def read_saved(text: str | bytes) -> Saved:
    """Raises SettingError naming the field of a file that `export` did not write."""
    try:
        return Saved.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or tr("the file")
        raise SettingError(
            tr(
                "This is no conversation saved by this program: {place}: {why}.",
                place=place,
                why=first["msg"],
            ),
            tr("Choose a .json file that was saved from the list of conversations."),
        ) from error
