"""What one run hands to its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

from app import run
from app.ending import Ending
from app.options import parse
from app.settings import Settings, SettingsFile
from specdec.contract import ChatEngine
from specdec.options import EngineOptions


class _SeenError(Exception):
    pass


def engine_options(folder: Path, words: Sequence[str]) -> EngineOptions:
    """What a run with these words would make its engine with."""
    seen: list[EngineOptions] = []

    def make(options: EngineOptions) -> ChatEngine:
        seen.append(options)
        raise _SeenError

    ending = Ending()
    try:
        with pytest.raises(_SeenError):
            run._start(parse([*words, "--port", "0"]), folder, make, print, ending)
    finally:
        ending.close()
    return seen[0]


def test_the_pair_of_the_command_line_is_a_first_choice_not_what_the_engine_falls_back_to(
    tmp_path: Path,
) -> None:
    """Else "Choose for this machine" would load the command line's model for ever."""
    words = ("--target", "smollm2-135m-instruct", "--draft", "ngram", "--device", "cpu")
    options = engine_options(tmp_path, words)
    given = [value for value in asdict(options).values() if value is not None]
    assert "cpu" in given
    assert not {"smollm2-135m-instruct", "ngram"} & set(map(str, given))


@pytest.mark.parametrize("words", [[], ["--no-ngram-store"]])
def test_the_switch_of_the_store_reaches_the_engine(tmp_path: Path, words: list[str]) -> None:
    assert engine_options(tmp_path, words).ngram_store is not bool(words)


@pytest.mark.parametrize(
    ("words", "kept", "want"),
    [([], None, None), ([], "packed", "packed"), (["--weights", "bf16"], "packed", "bf16")],
)
def test_the_form_of_the_weights_is_the_command_lines_or_the_settings(
    tmp_path: Path, words: list[str], kept: str | None, want: str | None
) -> None:
    SettingsFile(tmp_path / "settings.json").save(Settings(weights=kept))
    assert engine_options(tmp_path, words).weights == want
