"""Which of the project's packages are missing from an interpreter. Standard library only."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_LINE = re.compile(r"([A-Za-z0-9._-]+)\s*((?:[<>=!~]=?\s*[\w.]+\s*,?\s*)*)")
_BOUND = re.compile(r"(>=|<)\s*([\d.]+)")


def dependencies(root: Path, extra: str | None = None) -> list[str]:
    """The requirement lines of pyproject.toml, or those of one extra."""
    with (root / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    found: list[str] = project["optional-dependencies"][extra] if extra else project["dependencies"]
    return found


def installed(name: str) -> str | None:
    """A distribution's version in this interpreter, None when it is not there."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def missing(
    lines: Sequence[str], look: Callable[[str], str | None] = installed
) -> list[tuple[str, str | None]]:
    """(requirement, version found) for each line that is not satisfied."""
    found = []
    for line in lines:
        match = _LINE.match(line)
        if match is None:
            raise ValueError(f"requirement not understood: {line}")
        have = look(match[1])
        if have is None or not _satisfies(have, match[2]):
            found.append((line, have))
    return found


def _satisfies(have: str, bounds: str) -> bool:
    """Knows the two bounds this project writes: >= and <."""
    for sign, text in _BOUND.findall(bounds):
        mine, bound = _numbers(have), _numbers(text)
        if (mine < bound) if sign == ">=" else (mine >= bound):
            return False
    return True


def _numbers(text: str) -> tuple[int, ...]:
    head = re.match(r"[\d.]*", text)
    return tuple(int(part) for part in (head[0] if head else "").split(".") if part)
