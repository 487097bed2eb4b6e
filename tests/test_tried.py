"""docs/tried.md names tests that exist, and every fault of the groups that the page can have."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs" / "tried.md").read_text(encoding="utf-8")
NUMBERS = {
    "B": (1, 2, 3, 4, 5, 7, 9, 10, 13, 14, 15, 16, 17),
    "C": (1, 2, 4, 6, 10, 11, 13),
    "E": (4, 6, 7, 9, 10, 11, 12, 13, 14, 15, 17, 18),
}
"""As the list of faults from public reports numbers them."""


def test_every_test_that_is_named_exists() -> None:
    named = re.findall(r"(tests/[\w/]+\.py)(?:::(test_\w+))?", TEXT.partition("\n## ")[2])
    assert len(named) > 70
    for file, name in named:
        source = (ROOT / file).read_text(encoding="utf-8")
        assert not name or re.search(rf"^def {name}\(", source, re.MULTILINE), f"{file}::{name}"


def test_every_fault_has_its_line() -> None:
    lines = re.findall(r"^\| ([BCE]\d\d) \| .+ \| tests/", TEXT, re.MULTILINE)
    assert lines == [f"{group}{number:02}" for group, all_ in NUMBERS.items() for number in all_]
