"""Makes `.venv` beside launch.py, installs the project and goes on there. Standard library only.

A marker in the folder says that an install was finished, and for which requirements: without it the
install is taken up again, so an interruption or an update of the project repairs itself.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from app import gpu, requirements, torch_build
from specdec.errors import SettingError, SourceError

NESTED = "SPECDEC_CHAT_VENV"
"""Set for the process that was started again inside .venv, so that it never starts a third."""
OPT_OUT = "SPECDEC_CHAT_NO_VENV"
MARKER = "specdec-chat.json"

Say = Callable[[str], None]


def ensure(root: Path, argv: Sequence[str], *, venv: bool, yes: bool, say: Say) -> None:
    """Return when this interpreter has every package; else install and go on in `.venv`.

    Raises SettingError when a package is missing and making an environment was declined, and
    SourceError when the installation fails.
    """
    lines = requirements.dependencies(root)
    lacking = requirements.missing(lines)
    if not lacking:
        return
    if not venv or os.environ.get(OPT_OUT):
        raise SettingError(
            "These packages are missing: " + ", ".join(_shown(row) for row in lacking) + ".",
            f"Install them with: {sys.executable} -m pip install -e {root}",
        )
    folder = root / ".venv"
    complete = is_complete(folder, lines)
    if os.environ.get(NESTED) and complete:
        raise SourceError(
            f"{folder} lacks {_shown(lacking[0])} although its installation was finished.",
            "Delete that folder and start again.",
        )
    if not complete or Path(sys.prefix).resolve() == folder.resolve():
        say(f"These packages are missing here: {', '.join(_shown(row) for row in lacking)}.")
        say(f"Installing into {folder} (opt out with --no-venv or {OPT_OUT}=1).")
        install(root, folder, lines, yes=yes, say=say)
    _again(python_in(folder), root / "launch.py", argv)


def is_complete(folder: Path, lines: Sequence[str]) -> bool:
    """Whether an install of these requirements, perhaps with more, was finished there."""
    try:
        found = json.loads((folder / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    fits = _minor(str(found.get("python"))) == _minor(platform.python_version())
    return fits and set(lines) <= set(found["requirements"]) and python_in(folder).exists()


def ensure_dev(root: Path, *, yes: bool, say: Say) -> Path:
    """What scripts/test needs: `.venv` with the extra [dev]; its interpreter."""
    folder = root / ".venv"
    lines = [*requirements.dependencies(root), *requirements.dependencies(root, "dev")]
    if not is_complete(folder, lines):
        install(root, folder, lines, yes=yes, say=say, extra="[dev]")
    return python_in(folder)


def install(
    root: Path, folder: Path, lines: Sequence[str], *, yes: bool, say: Say, extra: str = ""
) -> None:
    """Make or repair the environment.

    Raises SourceError when a command fails, SettingError when a big download was declined.
    """
    python = python_in(folder)
    (folder / MARKER).unlink(missing_ok=True)
    if not _runs(python, "-m", "pip", "--version"):
        _run(say, sys.executable, "-m", "venv", "--clear", str(folder))
    torch = next(line for line in lines if line.startswith("torch"))
    hardware = gpu.look()
    say(f"Hardware: {hardware.kind.upper()} ({hardware.reason}).")
    plan = torch_build.plan(
        hardware,
        lambda extra: torch_build.ask_pip(python, torch, extra),
        torch_build.download_size,
    )
    say(f"PyTorch: {plan.reason}.")
    if plan.ask is not None and not yes:
        _consent(plan.ask)
    # Half of pip's time is compiling files that nobody imports; Python compiles what it imports.
    pip = (str(python), "-m", "pip", "install", "--no-compile")
    if plan.args:
        _run(say, *pip, torch, *plan.args)
    _run(say, *pip, "--editable", f"{root}{extra}")
    if hardware.kind == "cuda":
        works = _runs(python, "-c", "import torch, sys; sys.exit(not torch.cuda.is_available())")
        say("torch.cuda.is_available(): " + ("yes." if works else f"no. {_NO_CUDA}"))
    (folder / MARKER).write_text(json.dumps(_stamp(lines)), encoding="utf-8")


_NO_CUDA = "The chat will run on the processor; update the NVIDIA driver to use the GPU."


def python_in(folder: Path) -> Path:
    """The interpreter of a virtual environment."""
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _minor(version: str) -> list[str]:
    """3.11.9 -> 3, 11: what packages are built for; a patch release changes none of them."""
    return version.split(".")[:2]


def _stamp(lines: Sequence[str]) -> dict[str, object]:
    return {"requirements": sorted(lines), "python": platform.python_version()}


def _consent(size: int) -> None:
    told = f"a {size / 1e9:.1f} GB download" if size else "a download of several GB"
    text = f"This machine has no usable GPU, and the only PyTorch that can be had is {told}"
    if not sys.stdin.isatty():
        raise SettingError(f"{text}.", "Pass --yes to accept it, or install a CPU build first.")
    if input(f"{text}. Go on? [y/N] ").strip().lower() not in ("y", "yes"):
        raise SettingError("Nothing was installed.", "Pass --yes, or install a CPU build first.")


def _run(say: Say, *command: str) -> None:
    say("$ " + " ".join(command))
    code = subprocess.run(command, check=False).returncode
    if code != 0:
        raise SourceError(
            f"This command failed with exit code {code}: {' '.join(command)}",
            "Its lines above say why; start again to take the installation up where it stopped.",
        )


def _runs(python: Path, *arguments: str) -> bool:
    try:
        run = subprocess.run([str(python), *arguments], capture_output=True, check=False)
    except OSError:
        return False
    return run.returncode == 0


def _shown(row: tuple[str, str | None]) -> str:
    return f"{row[0]} (found {row[1]})" if row[1] else row[0]


def _again(python: Path, script: Path, argv: Sequence[str]) -> None:
    """Go on as the environment's own interpreter; does not return."""
    os.environ[NESTED] = "1"
    command = [str(python), str(script), *argv]
    sys.stdout.flush()
    if os.name != "nt":
        os.execv(command[0], command)
    process = subprocess.Popen(command)  # on Windows exec would return to the prompt at once
    while True:
        try:
            sys.exit(process.wait())
        except KeyboardInterrupt:  # the child had it too and is ending
            continue
