"""Prompts to race on: pasted text cut into prompts, and the names of those that come along.

Knows the built-in sets; nothing of races.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from app.words import tr
from specdec import prompt_sets
from specdec.errors import SettingError

BETWEEN = "\n\n---\n\n"
"""Between two prompts: blank lines and line ends belong to a prompt, so they cannot part two."""
_LINE = re.compile(r"^[ \t]*---[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Prompt:
    """`name` is "code 3" for one that comes with the program, else empty."""

    text: str
    name: str = ""

    @property
    def digest(self) -> str:
        """What a shared card says of a text without telling it."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def cut(text: str) -> tuple[Prompt, ...]:
    """The prompts of a text, parted by lines of ---. Raises SettingError where there is none."""
    names = _names()
    parts = [part.strip() for part in _LINE.split(text)]
    found = tuple(Prompt(part, names.get(part, "")) for part in parts if part)
    if not found:
        raise SettingError(tr("There is no prompt."), tr("Write one, or pick one of the examples."))
    return found


def joined(texts: tuple[str, ...]) -> str:
    """The text that `cut` cuts into these."""
    return BETWEEN.join(texts)


def _names() -> dict[str, str]:
    return {
        text.strip(): f"{kind} {number}"
        for kind in prompt_sets.kinds()
        for number, text in enumerate(prompt_sets.load(kind), 1)
    }
