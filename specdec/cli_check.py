"""`specdec check`: the arguments, progress on stderr, findings on stdout, the exit code."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

from specdec import catalogue
from specdec.errors import SettingError
from specdec.options import EngineOptions
from specdec.pair import Phase
from specdec.torch_env import prepare

TOKENS = 1000
"""Fewer would rarely see enough rounds of each outcome."""


def add_command(
    commands: Any,
    engine_arguments: Callable[[argparse.ArgumentParser], None],
    options: Callable[[argparse.Namespace], EngineOptions],
) -> None:
    """Add `check` to the subparsers; the other two are what all commands that load a pair share."""
    parser = commands.add_parser("check", help="is it lossless on this machine? (minutes)")
    engine_arguments(parser)
    parser.add_argument(
        "--tokens", type=int, default=TOKENS, metavar="N", help=f"at least N; default {TOKENS}"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    parser.set_defaults(run=lambda args: _check(args, options(args)))


def _check(args: argparse.Namespace, options: EngineOptions) -> int:
    """Exit code 0 when the check passes, 1 when it does not."""
    if args.tokens < 1:
        raise SettingError(f"tokens is {args.tokens}.", "It must be at least 1.")
    catalogue.check_ids(options, args.target, args.draft)
    prepare()
    from specdec.assemble import explain, load_target, with_draft
    from specdec.check import check
    from specdec.check_runners import open_runners
    from specdec.depot import Depot  # torch is imported only when it is needed

    try:
        depot = Depot(options, _Phases().show, lambda: False)
        target = load_target(depot, args.target)
        session = with_draft(depot, target, args.draft)
        report = check(session, open_runners(session, target), args.tokens, _tell)
    except Exception as error:
        raise explain(error) from error
    for text in report.notices:
        _tell(text)
    if args.json:
        print(json.dumps(report.to_json(), ensure_ascii=False, indent=1))
        _tell(report.verdict())
    else:
        print(*report.lines(), sep="\n", flush=True)
    return 0 if report.passed else 1


class _Phases:
    """Says each step of a load once."""

    def __init__(self) -> None:
        self._said = ""

    def show(self, phase: Phase) -> None:
        text = f"{phase.name} {phase.model}"
        if text != self._said:
            self._said = text
            _tell(f"{text} ...")


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
