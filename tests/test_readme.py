"""What the README says is there: the tree, the commands, the links, the options."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from app.options import parse

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
HIDDEN = {"README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml"}


def tree() -> list[str]:
    """The paths of the tree block."""
    block = TEXT[TEXT.index("## The tree") :]
    return re.findall(r"^ {4}([\w./-]+) {2,}\S", block, re.MULTILINE)


def tracked() -> set[str]:
    run = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if run.returncode != 0:  # a copy of the files, as in the check
        return {p.name for p in ROOT.iterdir() if not p.name.startswith(".")} - {"build"}
    return {line.partition("/")[0] for line in run.stdout.splitlines()}


def test_the_tree_is_true() -> None:
    paths = tree()
    assert len(paths) >= 8
    missing = [path for path in paths if not (ROOT / path).exists()]
    assert missing == []
    named = {path.partition("/")[0] for path in paths}
    unnamed = {n for n in tracked() - named - HIDDEN if not n.startswith((".", "__"))}
    assert {n for n in unnamed if not n.endswith(".egg-info")} == set()


@pytest.mark.parametrize("folder", ["scripts"])
def test_the_scripts_are_all_named(folder: str) -> None:
    line = re.search(rf"^ {{4}}{folder}/ +(.*)$", TEXT, re.MULTILINE)
    assert line is not None
    assert {name.strip() for name in line[1].split(",")} == {
        path.name for path in (ROOT / folder).iterdir() if path.is_file() and not path.suffix
    }


def test_files_named_in_the_text_exist() -> None:
    named = set(re.findall(r"`((?:specdec|app|tests|assets|docs|scripts)/[\w./-]+)`", TEXT))
    linked = {link for link in re.findall(r"\]\(([^)#]+)\)", TEXT) if "://" not in link}
    assert len(named) >= 5
    assert [path for path in sorted(named | linked) if not (ROOT / path).exists()] == []


def test_the_commands_are_the_real_ones() -> None:
    commands = re.findall(r"^ {4}((?:python|scripts/).*)$", TEXT, re.MULTILINE)
    assert "python launch.py" in commands
    assert "scripts/test" in commands
    for command in commands:
        if match := re.match(r"python -m specdec ([\w-]+)", command):
            run = subprocess.run(
                [sys.executable, "-m", "specdec", match[1], "--help"],
                cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
            )  # fmt: skip
            assert run.returncode == 0, run.stderr
            for option in re.findall(r"--[a-z-]+", command):
                assert option in run.stdout


def test_options_of_the_start_are_known() -> None:
    section = TEXT[: TEXT.index("## In the terminal")] + TEXT[TEXT.index("## Sharing") :]
    options = set(re.findall(r"`(--[a-z-]+)", section))
    assert "--share" in options
    values = {"--data-dir": ["d"], "--dtype": ["bfloat16"], "--target": ["x"]}
    values |= {"--weights": ["packed"], "--share-hours": ["2"]}
    for option in options:
        parse([option, *values.get(option, [])])
