"""The mutant table fits the source, and scripts/mutate tells a caught mutant from a survivor."""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "mutate"


def script() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("mutate_script", str(SCRIPT))
    spec = importlib.util.spec_from_loader("mutate_script", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutate_script"] = module  # dataclasses look their module up
    loader.exec_module(module)
    return module


@cache
def functions(file: str) -> frozenset[str]:
    """Names of a test file's functions; hundreds of mutants name few files."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


MUTANTS = script().read_table(ROOT / "scripts" / "mutants.toml")


@pytest.mark.parametrize("mutant", MUTANTS, ids=[m.name for m in MUTANTS])
def test_the_edit_applies_and_its_tests_exist(mutant: object) -> None:
    source = (ROOT / mutant.file).read_text(encoding="utf-8")  # type: ignore[attr-defined]
    assert mutant.apply(source) != source  # type: ignore[attr-defined]
    for test in mutant.tests:  # type: ignore[attr-defined]
        file, name = test.partition("[")[0].split("::")
        assert name in functions(file)


def test_every_file_with_a_rule_has_mutants() -> None:
    files = {m.file for m in MUTANTS}
    for name in ("noise", "sampling", "verify", "turn", "detokenize", "prompt", "session"):
        assert f"specdec/{name}.py" in files
    for name in ("model", "ngram", "length"):
        assert f"specdec/drafters/{name}.py" in files


# --- the script itself, on a tree of two files ----------------------------------------------

TABLE = """
[[mutant]]
name = "{name}"
file = "calc.py"
old = "{old}"
new = "{new}"
tests = ["test_calc.py::test_add"]
"""


def tried(folder: Path, old: str, new: str, *more: str, test: str = "add(2, 3) == 5") -> int:
    (folder / "calc.py").write_text("def add(a, b):\n    return a + b\n\n\nEXTRA = 1\n")
    (folder / "test_calc.py").write_text(
        f"from calc import add\n\n\ndef test_add():\n    assert {test}\n"
    )
    (folder / "mutants.toml").write_text(TABLE.format(name="one", old=old, new=new))
    command = [sys.executable, str(SCRIPT), "--root", str(folder), "--jobs", "1"]
    command += ["--table", str(folder / "mutants.toml"), "--limit", "60", *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert (folder / "calc.py").read_text().startswith("def add(a, b):\n    return a + b\n")
    return done.returncode


def test_a_caught_mutant_is_success(tmp_path: Path) -> None:
    assert tried(tmp_path, "a + b", "a - b") == 0


def test_a_survivor_is_failure(tmp_path: Path) -> None:
    assert tried(tmp_path, "a + b", "b + a") == 1


@pytest.mark.parametrize(
    ("old", "new", "test"),
    [
        ("a * b", "a - b", "add(2, 3) == 5"),  # the source has changed since
        ("a + b", "a + b", "add(2, 3) == 5"),  # no edit at all
        ("a", "b", "add(2, 3) == 5"),  # found in several places
        ("a + b", "a +", "add(2, 3) == 5"),  # not Python
        ("EXTRA = 1", "EXTRA = none", "add(2, 3) == 5"),  # cannot be imported: proves nothing
        ("a + b", "a - b", "add(2, 3) == 6"),  # fails without the mutant too
    ],
)
def test_a_wrong_table_is_an_error(tmp_path: Path, old: str, new: str, test: str) -> None:
    assert tried(tmp_path, old, new, test=test) == 2


def test_an_unknown_name_is_an_error(tmp_path: Path) -> None:
    assert tried(tmp_path, "a + b", "a - b", "two") == 2


@pytest.mark.slow
def test_every_mutant_is_caught() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
