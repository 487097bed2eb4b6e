"""What `launch.py` may be told: each option and its default, once. Standard library only."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NoReturn

from specdec.errors import SettingError
from specdec.options import DRAFT_DTYPES, DTYPES, WEIGHTS


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """None means: chosen for this machine, and the page says why."""

    target: str | None = None
    draft: str | None = None
    device: str | None = None
    dtype: str | None = None
    draft_dtype: str | None = None
    weights: str | None = None
    ngram_store: bool = True
    port: int = 7860
    host: str = "127.0.0.1"
    share: bool = False
    share_hours: float = 8.0
    auth: str | None = None
    browser: bool = True
    offline: bool = False
    data_dir: str | None = None
    venv: bool = True
    yes: bool = False


class _Parser(argparse.ArgumentParser):
    """Bad input is one line, as everywhere else in this program."""

    def error(self, message: str) -> NoReturn:
        raise SettingError(f"{message}.", f"See {self.prog} --help.")


def parse(argv: Sequence[str]) -> LaunchOptions:
    """The command line as data. Raises SettingError; `--help` prints and exits."""
    default = LaunchOptions()
    parser = _Parser("launch.py", description="Chat with a language model on this machine.")
    add = parser.add_argument
    add("--target", metavar="ID", help="the model that answers (see: python -m specdec models)")
    add("--draft", metavar="ID", help='its draft; "ngram", "early-exit", "none", "auto": several')
    add("--device", help='"cpu", "cuda", "cuda:1" or "mps"')
    add("--dtype", choices=DTYPES, help="numbers the target computes in")
    add("--draft-dtype", choices=DRAFT_DTYPES, help="numbers the draft computes in")
    add("--weights", choices=WEIGHTS, help="form of the target's weights; see README, Limits")
    add(
        "--no-ngram-store",
        dest="ngram_store",
        action="store_false",
        help="neither read nor keep earlier replies for n-gram drafts",
    )
    add("--port", type=int, help=f"first port to try (default {default.port})")
    add("--host", help=f"address to listen on (default {default.host}: this machine only)")
    add("--share", action="store_true", help="make a public link; asks for a password")
    add(
        "--share-hours",
        type=float,
        metavar="HOURS",
        help=f"how long it is open (default {default.share_hours:g}, at most 72)",
    )
    add("--auth", metavar="USER:PASSWORD", help="the owner's login; made up when one is needed")
    add("--no-browser", dest="browser", action="store_false", help="do not open a browser")
    add("--offline", action="store_true", help="use only what is on disk")
    add("--data-dir", metavar="DIR", help="where chats, settings and models are kept")
    add("--no-venv", dest="venv", action="store_false", help="do not make a .venv; use this Python")
    add("--yes", action="store_true", help="answer yes to the question about a big download")
    parser.set_defaults(**{field.name: getattr(default, field.name) for field in fields(default)})
    options = LaunchOptions(**vars(parser.parse_args(argv)))
    _check(options)
    return options


def _check(options: LaunchOptions) -> None:
    if not 0 <= options.port <= 65535:
        raise SettingError(f"--port is {options.port}.", "It must be 0 (any) to 65535.")
    if not 0 < options.share_hours <= 72:
        raise SettingError(
            f"--share-hours is {options.share_hours:g}.", "It must be more than 0, at most 72."
        )
    if options.auth is not None:
        user, _, password = options.auth.partition(":")
        if not user or len(password) < 8:
            raise SettingError(
                "--auth needs a name and a password of 8 characters or more.",
                "Write it as --auth NAME:PASSWORD.",
            )
