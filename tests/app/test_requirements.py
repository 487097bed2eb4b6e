"""Which packages are missing: read from pyproject.toml, compared with what is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.requirements import dependencies, installed, missing

ROOT = Path(__file__).resolve().parents[2]


def test_this_environment_lacks_nothing() -> None:
    lines = dependencies(ROOT)
    assert any(line.startswith("torch") for line in lines)
    assert missing(lines) == []
    assert installed("no-such-package-at-all") is None


@pytest.mark.parametrize(
    ("have", "fits"),
    [
        (None, False),
        ("2.10.1", False),
        ("2.11", True),
        ("2.11.0", True),
        ("2.13.0+cpu", True),
        ("2.13.5rc1", True),
        ("2.14", False),
        ("2.14.0", False),
        ("10.0", False),
    ],
)
def test_a_version_outside_the_range_counts_as_missing(have: str | None, fits: bool) -> None:
    line = "torch>=2.11,<2.14"
    assert missing([line], lambda name: have) == ([] if fits else [(line, have)])


def test_the_name_looked_up_is_the_distribution() -> None:
    asked: list[str] = []
    missing(["huggingface-hub>=2.4,<3", "gguf"], lambda name: asked.append(name) or "2.5")
    assert asked == ["huggingface-hub", "gguf"]


def test_a_line_nobody_understands_is_an_error() -> None:
    with pytest.raises(ValueError, match="not understood"):
        missing(["???"])
