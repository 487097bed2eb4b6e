"""Do two tokenizer.json files mean the same by an id? Knows token texts, nothing of models.

What counts (A19, A22): a word of the vocabulary must have one text over the ids both know. An
*added* token (a marker, not a word) may differ, unless the target's template writes it or it ends
a reply: an id the target never says costs nothing, and what is said is the target's anyway.
"""

from __future__ import annotations

import filecmp
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specdec.errors import LoadError


@dataclass(frozen=True, slots=True)
class Tokens:
    """Texts by id: `words` of the model's vocabulary, `added` markers; `size` = highest id + 1."""

    words: dict[int, str]
    added: dict[int, str]

    @property
    def size(self) -> int:
        return max(max(self.words, default=-1), max(self.added, default=-1)) + 1

    def text(self, token: int) -> str | None:
        return self.added.get(token, self.words.get(token))


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the draft may serve, and the line a user reads."""

    same: bool
    reason: str


def read_tokens(folder: Path) -> Tokens:
    """The token texts of a model folder. Raises LoadError when tokenizer.json is not usable."""
    file = folder / "tokenizer.json"
    try:
        data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        vocab = data["model"]["vocab"]
        if isinstance(vocab, dict):
            words = {int(i): str(text) for text, i in vocab.items()}
        else:  # Unigram: [[text, score], ...]
            words = {i: str(row[0]) for i, row in enumerate(vocab)}
        added = {int(row["id"]): str(row["content"]) for row in data.get("added_tokens", ())}
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise LoadError(f"{file} cannot be read: {error!r}.", "Fetch the model anew.") from error
    return Tokens({i: t for i, t in words.items() if i not in added}, added)


def compare(target: Path, draft: Path) -> Verdict:
    """Compare two model folders; `reason` names the first token that differs.

    Ids only one side knows are rows that pad the other and are masked (A19, A21). The draft must
    have a row for every id of the target: it reads what the target said.
    """
    if _same_file(target, draft) and _rows(draft, 0) >= _rows(target, 1):
        return Verdict(True, "same tokens")
    ours, theirs = read_tokens(target), read_tokens(draft)
    rows = _rows(draft, theirs.size)
    if rows < ours.size:
        return Verdict(False, f"it has {rows} token rows, the target's ids go to {ours.size - 1}")
    vital = _ends(target)
    template = _template(target)
    harmless = 0
    for token in range(min(ours.size, theirs.size)):
        mine, other = ours.text(token), theirs.text(token)
        if mine == other:
            continue
        marker = token not in ours.words and token not in theirs.words
        used = token in vital or (mine is not None and token in ours.added and mine in template)
        if mine is None or other is None:
            if used and other is None:  # the draft knows no such marker, yet the template writes it
                return Verdict(False, _differs(token, mine, other))
            continue
        if not marker or used:
            return Verdict(False, _differs(token, mine, other))
        harmless += 1
    if harmless:
        return Verdict(True, f"same tokens; {harmless} markers the target never writes differ")
    return Verdict(True, "same tokens")


def _same_file(target: Path, draft: Path) -> bool:
    """Siblings often ship one tokenizer.json; parsing two of 9 MB takes seconds."""
    one, two = target / "tokenizer.json", draft / "tokenizer.json"
    return one.is_file() and two.is_file() and filecmp.cmp(one, two, shallow=False)


def _differs(token: int, mine: str | None, other: str | None) -> str:
    return f"token {token} differs: {_show(mine)} / {_show(other)}"


def _show(text: str | None) -> str:
    return "none" if text is None else repr(text if len(text) <= 40 else text[:40] + "…")


def _rows(folder: Path, least: int) -> int:
    config = _object(folder / "config.json")
    rows = config.get("text_config", config).get("vocab_size")
    return rows if isinstance(rows, int) else least


def _ends(folder: Path) -> set[int]:
    """End ids as generation_config.json and config.json name them."""
    ends: set[int] = set()
    for name in ("generation_config.json", "config.json"):
        value = _object(folder / name).get("eos_token_id")
        ends.update(value if isinstance(value, list) else [value] if value is not None else [])
    return ends


def _template(folder: Path) -> str:
    jinja = folder / "chat_template.jinja"
    if jinja.is_file():
        return jinja.read_text(encoding="utf-8")
    return json.dumps(_object(folder / "tokenizer_config.json").get("chat_template") or "")


def _object(file: Path) -> dict[str, Any]:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:  # optional files
        return {}
    except (OSError, ValueError) as error:
        raise LoadError(f"{file} cannot be read: {error}.", "Fetch the model anew.") from error
    return data if isinstance(data, dict) else {}
