"""The small 2/3 under a message that has other versions, with a button either way. HTML only."""

from __future__ import annotations

from collections.abc import Sequence


def switch(message: int, versions: Sequence[int]) -> str:
    """Nothing where there is one version; a button names the version it shows, not its own."""
    if message not in versions or len(versions) < 2:
        return ""
    at = versions.index(message)
    before = _step("previous", "‹", versions[at - 1] if at else None)
    after = _step("next", "›", versions[at + 1] if at + 1 < len(versions) else None)
    where = f"{at + 1}/{len(versions)}"
    return (
        f'<span class="versions" role="group" aria-label="Version {at + 1} of {len(versions)}">'
        f"{before}<span>{where}</span>{after}</span>"
    )


def _step(way: str, sign: str, message: int | None) -> str:
    inside = f'data-act="show" data-way="{way}" aria-label="Show the {way} version"'
    if message is None:
        return f'<button type="button" {inside} disabled>{sign}</button>'
    return f'<span data-id="{message}"><button type="button" {inside}>{sign}</button></span>'
