"""The environment: made, marked, repaired, refused. Real venvs; pip is stubbed only to be quick."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app import environment, gpu, requirements, torch_build
from app.environment import MARKER, NESTED, OPT_OUT, ensure, install, is_complete, python_in
from app.torch_build import Plan
from specdec.errors import SettingError, SourceError

LINES = ["torch>=2.11,<2.14", "gradio>=6.31,<7"]


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (OPT_OUT, NESTED):
        monkeypatch.setenv(name, "")


@pytest.fixture
def lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "dependencies", lambda root: LINES)
    monkeypatch.setattr(requirements, "missing", lambda lines: [(LINES[1], "3.50.2")])


@pytest.fixture
def again(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Notes the commands that would take this process over."""
    calls: list[list[str]] = []

    def note(python: Path, script: Path, argv: list[str]) -> None:
        calls.append([str(python), str(script), *argv])

    monkeypatch.setattr(environment, "_again", note)
    return calls


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Lets `python -m venv` run for real and only notes pip's installs."""
    calls: list[tuple[str, ...]] = []

    def run(say: environment.Say, *command: str) -> None:
        calls.append(command)
        if "venv" in command:
            subprocess.run([*command, "--without-pip"], check=True)

    monkeypatch.setattr(environment, "_run", run)
    monkeypatch.setattr(gpu, "look", lambda: gpu.Hardware("cpu", "Linux", "test"))
    monkeypatch.setattr(torch_build, "plan", lambda *args: Plan((), "test"))
    return calls


def quiet(text: str) -> None:
    return None


def test_an_environment_that_has_everything_is_used_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: list[list[str]]
) -> None:
    monkeypatch.setattr(requirements, "dependencies", lambda root: LINES)
    monkeypatch.setattr(requirements, "missing", lambda lines: [])
    ensure(tmp_path, [], venv=True, yes=False, say=quiet)
    assert again == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("lacking")
@pytest.mark.parametrize("by_variable", [True, False])
def test_opting_out_names_what_is_missing_and_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_variable: bool
) -> None:
    if by_variable:
        monkeypatch.setenv(OPT_OUT, "1")
    with pytest.raises(SettingError, match="gradio") as caught:
        ensure(tmp_path, [], venv=by_variable, yes=False, say=quiet)
    assert "3.50.2" in caught.value.message
    assert "pip install -e" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("lacking")
def test_a_first_start_installs_and_goes_on_with_the_same_arguments(
    tmp_path: Path, ran: list[tuple[str, ...]], again: list[list[str]]
) -> None:
    said: list[str] = []
    ensure(tmp_path, ["--target", "a b", "--offline"], venv=True, yes=False, say=said.append)
    folder = tmp_path / ".venv"
    assert again == [
        [str(python_in(folder)), str(tmp_path / "launch.py"), "--target", "a b", "--offline"]
    ]
    assert ran[-1][-2:] == ("--editable", str(tmp_path))
    assert is_complete(folder, LINES)
    assert any("--no-venv" in line for line in said)


@pytest.mark.usefixtures("lacking")
def test_a_second_start_only_goes_on(
    tmp_path: Path, ran: list[tuple[str, ...]], again: list[list[str]]
) -> None:
    ensure(tmp_path, [], venv=True, yes=False, say=quiet)
    ran.clear()
    ensure(tmp_path, [], venv=True, yes=False, say=quiet)
    assert ran == []
    assert len(again) == 2


def test_an_interrupted_install_is_taken_up(tmp_path: Path, ran: list[tuple[str, ...]]) -> None:
    folder = tmp_path / ".venv"
    install(tmp_path, folder, LINES, yes=False, say=quiet)
    (folder / MARKER).unlink()
    assert not is_complete(folder, LINES)
    ran.clear()
    install(tmp_path, folder, LINES, yes=False, say=quiet)
    assert any("--editable" in command for command in ran)
    assert is_complete(folder, LINES)


def test_the_marker_goes_before_the_work_begins(
    tmp_path: Path, ran: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ".venv"
    install(tmp_path, folder, LINES, yes=False, say=quiet)

    def broken(say: environment.Say, *command: str) -> None:
        raise SourceError("no network", "try again")

    monkeypatch.setattr(environment, "_run", broken)
    with pytest.raises(SourceError):
        install(tmp_path, folder, LINES, yes=False, say=quiet)
    assert not is_complete(folder, LINES)


def test_other_requirements_or_another_python_are_not_complete(
    tmp_path: Path, ran: list[tuple[str, ...]]
) -> None:
    folder = tmp_path / ".venv"
    install(tmp_path, folder, LINES, yes=False, say=quiet)
    assert not is_complete(folder, [*LINES, "new>=1"])
    assert is_complete(folder, LINES[:1])  # one with [dev] serves launch.py too
    stamp = json.loads((folder / MARKER).read_text())
    major, minor = sys.version_info[:2]
    (folder / MARKER).write_text(json.dumps({**stamp, "python": f"{major}.{minor}.99"}))
    assert is_complete(folder, LINES)  # a patch release of Python needs no new environment
    (folder / MARKER).write_text(json.dumps({**stamp, "python": f"{major}.{minor}9.1"}))
    assert not is_complete(folder, LINES)
    (folder / MARKER).write_text("{ half a fi")
    assert not is_complete(folder, LINES)


def test_a_half_made_folder_is_made_anew(tmp_path: Path, ran: list[tuple[str, ...]]) -> None:
    folder = tmp_path / ".venv"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").write_text("#!/bin/false\n")
    (folder / "bin" / "python").chmod(0o755)
    install(tmp_path, folder, LINES, yes=False, say=quiet)
    run = subprocess.run([python_in(folder), "-c", "print(1)"], capture_output=True, check=True)
    assert run.stdout == b"1\n"


def test_a_big_download_is_refused_without_a_person(
    tmp_path: Path, ran: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    big = Plan((), "only a CUDA build", ask=2_500_000_000)
    monkeypatch.setattr(torch_build, "plan", lambda *args: big)
    monkeypatch.setattr(sys, "stdin", open(os.devnull))  # noqa: PTH123, SIM115
    with pytest.raises(SettingError, match=r"2\.5 GB") as caught:
        install(tmp_path, tmp_path / ".venv", LINES, yes=False, say=quiet)
    assert "--yes" in caught.value.hint
    assert not any("--editable" in command for command in ran)
    install(tmp_path, tmp_path / ".venv", LINES, yes=True, say=quiet)
    assert any("--editable" in command for command in ran)


def test_the_tests_own_environment_has_the_extra(
    tmp_path: Path, ran: list[tuple[str, ...]]
) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\ndependencies = ["torch>=2"]\noptional-dependencies = {dev = ["pytest>=8"]}\n'
    )
    python = environment.ensure_dev(tmp_path, yes=False, say=quiet)
    assert ran[-1][-1] == f"{tmp_path}[dev]"
    assert python.exists()
    ran.clear()
    environment.ensure_dev(tmp_path, yes=False, say=quiet)
    assert ran == []


@pytest.mark.parametrize(("answer", "goes"), [("y", True), ("", False), ("n", False)])
def test_a_person_is_asked(
    tmp_path: Path,
    ran: list[tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    goes: bool,
) -> None:
    monkeypatch.setattr(torch_build, "plan", lambda *args: Plan((), "only CUDA", ask=0))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    asked: list[str] = []
    monkeypatch.setattr("builtins.input", lambda text: asked.append(text) or answer)
    if goes:
        install(tmp_path, tmp_path / ".venv", LINES, yes=False, say=quiet)
    else:
        with pytest.raises(SettingError, match="Nothing was installed"):
            install(tmp_path, tmp_path / ".venv", LINES, yes=False, say=quiet)
    assert "several GB" in asked[0]


def test_pytorch_s_own_index_comes_before_the_project(
    tmp_path: Path, ran: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan(("--index-url", "https://x/cpu"), "test")
    monkeypatch.setattr(torch_build, "plan", lambda *args: plan)
    install(tmp_path, tmp_path / ".venv", LINES, yes=False, say=quiet)
    torch, project = (command for command in ran if "pip" in command)
    assert torch[-3:] == (LINES[0], "--index-url", "https://x/cpu")
    assert "--editable" in project


@pytest.mark.usefixtures("lacking")
def test_a_finished_environment_that_lacks_something_does_not_start_for_ever(
    tmp_path: Path,
    ran: list[tuple[str, ...]],
    again: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ensure(tmp_path, [], venv=True, yes=False, say=quiet)
    monkeypatch.setenv(NESTED, "1")
    with pytest.raises(SourceError, match="finished") as caught:
        ensure(tmp_path, [], venv=True, yes=False, say=quiet)
    assert "Delete" in caught.value.hint


def test_a_command_that_fails_is_one_clear_error() -> None:
    said: list[str] = []
    with pytest.raises(SourceError, match="exit code 3"):
        environment._run(said.append, sys.executable, "-c", "raise SystemExit(3)")
    assert said[0].startswith("$ ")
