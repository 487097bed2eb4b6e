"""The small 2/3 under a message that has other versions, with a button either way. HTML only."""

from __future__ import annotations

from collections.abc import Sequence

from app.words import tr


def switch(message: int, versions: Sequence[int]) -> str:
    """Nothing where there is one version; a button names the version it shows, not its own."""
    if message not in versions or len(versions) < 2:
        return ""
    at = versions.index(message)
    last = versions[at + 1] if at + 1 < len(versions) else None
    before = _step(
        "previous", tr("Show the previous version"), "‹", versions[at - 1] if at else None
    )
    after = _step("next", tr("Show the next version"), "›", last)
    name = tr("Version {at} of {all}", at=at + 1, all=len(versions))
    where = f"{at + 1}/{len(versions)}"
    return (
        f'<span class="versions" role="group" aria-label="{name}">'
        f"{before}<span>{where}</span>{after}</span>"
    )


def _step(way: str, name: str, sign: str, message: int | None) -> str:
    inside = f'data-act="show" data-way="{way}" aria-label="{name}"'
    if message is None:
        return f'<button type="button" {inside} disabled>{sign}</button>'
    return f'<span data-id="{message}"><button type="button" {inside}>{sign}</button></span>'
