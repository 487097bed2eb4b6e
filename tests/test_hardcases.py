"""Every known fault of this kind of program has a test here, or a line saying why not."""

from __future__ import annotations

import ast
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
CASES: dict[str, dict[str, Any]] = tomllib.loads(
    (ROOT / "tests" / "hardcases.toml").read_text(encoding="utf-8")
)
WHOLE = {
    "B": (1, 2, 3, 4, 5, 7, 9, 10, 13, 14, 15, 16, 17),
    "C": (1, 2, 4, 6, 10, 11, 13),
    "E": (4, 6, 7, 9, 10, 11, 12, 13, 14, 15, 17, 18),
}
"""The numbers of the groups that must be complete; those between them are no cases of ours."""


@lru_cache
def names_in(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def missing(names: list[str]) -> list[str]:
    """Those that no file has, or that pytest would not collect."""
    return [
        name
        for path, _, test in (name.partition("::") for name in names)
        if not (name := f"{path}::{test}").startswith("tests/")
        or not test.startswith("test_")
        or not (ROOT / path).is_file()
        or test not in names_in(path)
    ]


def test_no_case_is_missing() -> None:
    wanted = {f"{group}{number:02}" for group, numbers in WHOLE.items() for number in numbers}
    assert wanted - set(CASES) == set()
    assert {name for name in CASES if name[0] in WHOLE} - wanted == set()


@pytest.mark.parametrize("number", CASES)
def test_a_case_has_its_tests_or_says_why_not(number: str) -> None:
    case = CASES[number]
    assert case["what"].strip()
    assert ("tests" in case) != ("why_not" in case)
    assert set(case) <= {"what", "tests", "why_not"}
    if "tests" in case:
        assert case["tests"]
        assert missing(case["tests"]) == []
    else:
        assert len(case["why_not"]) > 20


def test_the_check_sees_a_test_that_is_not_there() -> None:
    assert missing(["tests/test_hardcases.py::test_nothing_of_the_kind"])
    assert missing(["tests/test_gone.py::test_x"])
    assert missing(["tests/test_hardcases.py"])
    assert not missing(["tests/test_hardcases.py::test_no_case_is_missing"])
