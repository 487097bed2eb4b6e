"""Who may import whom, what must not be imported at all, and how long a file may be."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted([*ROOT.glob("specdec/**/*.py"), *ROOT.glob("app/**/*.py"), ROOT / "launch.py"])
HEAVY = {"torch", "transformers", "accelerate", "gguf", "safetensors"}
STDLIB_ONLY = (
    "specdec.contract", "specdec.request", "specdec.pair", "specdec.failure", "specdec.errors",
    "specdec.metrics", "specdec.options", "app.options", "app.environment", "app.requirements",
    "app.gpu", "app.torch_build", "app.ports", "app.ending", "launch",
)  # fmt: skip
"""What launch.py needs before anything is installed, and the seam both sides share."""
NO_TORCH = (*STDLIB_ONLY, "specdec.registry", "specdec.sources", "specdec.memory",
            "specdec.pairing", "specdec.paths", "specdec.catalogue", "specdec.process",
            "app.controller", "app.run", "app.server", "app.ui.page")  # fmt: skip
GRADIO_AT_HOME = {"app/server.py", "app/share.py", "app/gradio_import.py"}
LONGEST = 300


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports(path: Path) -> Iterator[str]:
    """Every module a file imports, anywhere in it; names given to `from package import` too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}: relative import"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def roots(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in imports(path)}


def test_the_check_sees_imports_inside_functions(tmp_path: Path) -> None:
    file = tmp_path / "x.py"
    file.write_text("def f():\n    import torch.nn\n    from app.ui import page\n")
    assert set(imports(file)) == {"torch.nn", "app.ui", "app.ui.page"}


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_imports(path: Path) -> None:
    name, found = name_of(path), roots(path)
    if name.startswith("specdec/"):
        assert not found & {"app", "gradio", "fastapi", "starlette", "uvicorn"}
    if name.startswith("app/"):
        assert not found & HEAVY
        if "gradio" in found:
            assert name.startswith("app/ui/") or name in GRADIO_AT_HOME
    if name.startswith("app/ui/"):
        assert "sqlite3" not in found
    assert "tests" not in found
    if not name.startswith("specdec/training/") and name != "specdec/cli.py":
        assert not any(module.startswith("specdec.training") for module in imports(path))


def test_only_launch_knows_both_sides() -> None:
    engines = {"specdec.process", "specdec.engine", "specdec.worker", "specdec.pipe"}
    both = [name_of(p) for p in SOURCES if set(imports(p)) & engines and "app" in roots(p)]
    assert both == ["launch.py"]
    assert [name_of(p) for p in (ROOT / "app").rglob("*.py") if set(imports(p)) & engines] == []


def test_the_transformers_cache_is_touched_in_one_file() -> None:
    pattern = re.compile(r"past_key_values|DynamicCache|StaticCache|cache_utils")
    found = {name_of(p) for p in SOURCES if pattern.search(p.read_text(encoding="utf-8"))}
    assert found <= {"specdec/cache.py"}


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_a_file_is_short_and_says_what_it_is(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST
    first = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
    assert first.endswith((".", "?", "!", ":"))


def test_tests_are_short_too() -> None:
    long = {
        name_of(path): lines
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > LONGEST
    }
    assert long == {}


def test_nothing_is_left_unfinished() -> None:
    pattern = re.compile(r"\b(TODO|FIXME|XXX|raise NotImplementedError|breakpoint)\b")
    found = {name_of(p) for p in SOURCES if pattern.search(p.read_text(encoding="utf-8"))}
    assert found == set()


def test_there_is_no_drawer_for_odds_and_ends() -> None:
    assert [name_of(p) for p in SOURCES if p.stem in ("utils", "util", "helpers", "misc")] == []


def loaded(module: str, *flags: str) -> set[str]:
    """Top-level modules in sys.modules after importing `module` in a fresh interpreter."""
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); before = set(sys.modules);"
        f"import {module}; new = set(sys.modules) - before;"
        "print(*sorted({name.partition('.')[0] for name in new}))"
    )
    run = subprocess.run(
        [sys.executable, *flags, "-c", script],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return set(run.stdout.split())


def test_the_standard_library_is_enough_to_begin() -> None:
    """Without site-packages (-S): nothing that must be installed first."""
    found = loaded(", ".join(STDLIB_ONLY), "-S", "-E")
    assert found - set(sys.stdlib_module_names) <= {"app", "specdec", "launch", "__mp_main__"}


def test_the_page_s_process_never_loads_torch() -> None:
    """Each by itself, so that no other import hides one."""
    assert not loaded(", ".join(NO_TORCH)) & HEAVY


def test_the_check_sees_torch() -> None:
    assert "torch" in loaded("specdec.sampling")


def test_the_engine_never_loads_gradio() -> None:
    assert not loaded("specdec.worker, specdec.engine, specdec.cli") & {"gradio", "app", "fastapi"}


def test_the_install_has_every_package() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    listed = set(project["tool"]["setuptools"]["packages"])
    found = {
        name_of(path.parent).replace("/", ".") for path in SOURCES if path.name == "__init__.py"
    }
    assert listed == found
