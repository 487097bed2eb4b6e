"""The prompts by kind that come with the program: race, bench, check. Knows no models; no torch.

One JSON list of texts a kind, in assets/prompts/.
"""

from __future__ import annotations

import json
from pathlib import Path

from specdec.errors import SettingError

ASSETS = Path(__file__).resolve().parents[1] / "assets"


def kinds(assets: Path = ASSETS) -> tuple[str, ...]:
    """The kinds there are, in one order everywhere. Raises SettingError where there are none."""
    found = tuple(sorted(_sets(assets)))
    if not found:
        raise SettingError(f"There are no prompts in {assets}.", "Run this from a full checkout.")
    return found


def load(kind: str, assets: Path = ASSETS) -> tuple[str, ...]:
    """The prompts of one kind. Raises SettingError for an unknown kind or a file that is no list.

    Texts that are empty would make empty replies: they are refused too.
    """
    sets = _sets(assets)
    if kind not in sets:
        known = ", ".join(sorted(sets)) or "none"
        raise SettingError(f"There are no prompts of the kind {kind!r}.", f"Kinds: {known}.")
    texts = json.loads(sets[kind].read_text(encoding="utf-8"))
    if not isinstance(texts, list) or not texts or not all(_is_text(t) for t in texts):
        raise SettingError(
            f"The prompts of the kind {kind!r} are not a list of texts.", f"See {assets}."
        )
    return tuple(texts)


def _sets(assets: Path) -> dict[str, Path]:
    """kind -> its file."""
    return {path.stem: path for path in (assets / "prompts").glob("*.json")}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
