"""What one run hands to its parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from app import run
from app.ending import Ending
from app.options import parse
from specdec.contract import ChatEngine
from specdec.options import EngineOptions


class _SeenError(Exception):
    pass


def test_the_pair_of_the_command_line_is_a_first_choice_not_what_the_engine_falls_back_to(
    tmp_path: Path,
) -> None:
    """Else "Choose for this machine" would load the command line's model for ever."""
    seen: list[EngineOptions] = []

    def make(options: EngineOptions) -> ChatEngine:
        seen.append(options)
        raise _SeenError

    words = ("--target", "smollm2-135m-instruct", "--draft", "ngram", "--device", "cpu")
    ending = Ending()
    try:
        with pytest.raises(_SeenError):
            run._start(parse([*words, "--port", "0"]), tmp_path, make, print, ending)
    finally:
        ending.close()
    assert (seen[0].target, seen[0].draft, seen[0].device) == (None, None, "cpu")
