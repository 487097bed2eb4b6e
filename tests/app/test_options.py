"""The command line: defaults once, bad input is one line."""

from __future__ import annotations

import pytest

from app.options import LaunchOptions, parse
from specdec.errors import SettingError


def test_no_arguments_are_the_defaults() -> None:
    assert parse([]) == LaunchOptions()


def test_every_option_is_read() -> None:
    line = (
        "--target a --draft ngram --device cpu --dtype float32 --draft-dtype int4 --weights packed"
        " --port 0 --host ::1 --share --share-hours 2 --auth me:longenough"
        " --no-browser --offline --data-dir d --no-venv"
        " --yes --no-ngram-store"
    )
    options = parse(line.split())
    default = LaunchOptions()
    assert options == LaunchOptions(
        "a", "ngram", "cpu", "float32", "int4", "packed", False, 0, "::1", True, 2.0,
        "me:longenough", False, True, "d", False, True,
    )  # fmt: skip
    changed = [n for n in LaunchOptions.__slots__ if getattr(options, n) != getattr(default, n)]
    assert changed == list(LaunchOptions.__slots__)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("--port x", "--port"),
        ("--port 70000", "70000"),
        ("--port -1", "-1"),
        ("--dtype int3", "int3"),
        ("--colour red", "--colour"),
        ("--auth short:pw", "--auth"),
        ("--auth nopassword", "--auth"),
    ],
)
def test_bad_input_is_one_line(line: str, named: str) -> None:
    with pytest.raises(SettingError) as caught:
        parse(line.split())
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.hint
