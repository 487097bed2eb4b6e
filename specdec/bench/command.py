"""`specdec bench`: the arguments, progress on stderr, the report on stdout. No torch at import."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from specdec import catalogue
from specdec.bench.plan import (
    CHOSEN,
    GREEDY,
    LAW,
    LLAMA,
    TRANSFORMERS,
    Plan,
    Server,
    names,
    prompts_by_kind,
)
from specdec.errors import SettingError
from specdec.options import EngineOptions
from specdec.pairing import NONE
from specdec.request import Sampling
from specdec.torch_env import prepare

TOKENS, ACCEPT = 64, 0.8


def add_command(
    commands: Any,
    engine_arguments: Callable[[argparse.ArgumentParser], None],
    options: Callable[[argparse.Namespace], EngineOptions],
) -> None:
    """Add `bench` to the subparsers; the other two are what all commands that load a pair share."""
    parser = commands.add_parser(
        "bench",
        help="time plain decoding, drafts and other engines in one run",
        conflict_handler="resolve",
    )
    engine_arguments(parser)
    add = parser.add_argument
    add("--draft", action="append", metavar="ID",
        help="id, ngram, early-exit, auto or chosen; more by commas")  # fmt: skip
    add("--kinds", action="append", default=[], metavar="KIND", help="default: all")
    add("--prompts", type=Path, metavar="FILE", help='{"kind": ["prompt", ...], ...}')
    add("--first", type=int, metavar="N", help="only the first N prompts of a kind")
    add("--tokens", type=int, default=TOKENS, metavar="N", help=f"a reply; default {TOKENS}")
    add("--runs", type=int, default=1, metavar="N", help="of each prompt; default 1")
    add("--minutes", type=float, metavar="N", help="leave out prompts that would take it longer")
    add("--peers", nargs="?", const=TRANSFORMERS, default=None, metavar="LIST",
        help=f"{TRANSFORMERS}, {LLAMA} or none; default {TRANSFORMERS}")  # fmt: skip
    for name in LAW:
        value = getattr(GREEDY, name)
        add("--" + name.replace("_", "-"), type=type(value), default=value, metavar="N",
            help=f"default {value:g}; needs --peers none")  # fmt: skip
    add("--llama-server", type=Path, metavar="PATH", help="llama.cpp's llama-server")
    add("--gguf", type=Path, metavar="FILE", help="the file it serves")
    add("--synthetic", metavar="SHAPE", help="random weights: a registry id, or TARGET+DRAFT")
    add("--accept", type=float, default=ACCEPT, metavar="SHARE",
        help=f"of drafts forced to be right, with --synthetic; default {ACCEPT}")  # fmt: skip
    add("--json", type=Path, metavar="FILE")
    add("--png", type=Path, metavar="FILE", help="a picture; needs matplotlib (extra bench)")
    parser.set_defaults(run=lambda args: _bench(args, options(args)))


def _bench(args: argparse.Namespace, options: EngineOptions) -> int:
    """Exit code 0; whatever keeps a row from being measured is an error."""
    plan = _plan(args, options)
    _check_synthetic(args)
    _check_outputs(args)
    prepare()
    from specdec.assemble import explain  # torch is imported only when it is needed
    from specdec.bench import plot, report, run

    if args.png:
        plot.check()
    try:
        if args.synthetic:
            from specdec.bench import synthetic

            result = synthetic.measure_shape(plan, args.synthetic, args.accept, _tell)
        else:
            result = run.measure(plan, _tell)
    except Exception as error:
        raise explain(error) from error
    print(report.text(result), flush=True)
    if args.json:
        args.json.write_text(report.to_json(result), encoding="utf-8")
    if args.png:
        plot.draw(result, args.png)
    return 0


def _plan(args: argparse.Namespace, options: EngineOptions) -> Plan:
    drafts = names(args.draft or [CHOSEN])
    for draft in drafts:
        catalogue.check_ids(options, None, None if draft == CHOSEN else draft)
    catalogue.check_ids(options, args.target, None)
    return Plan(
        options=options,
        target=args.target,
        drafts=tuple(draft for draft in drafts if draft != NONE),
        prompts=prompts_by_kind(names(args.kinds), args.prompts, args.first),
        tokens=args.tokens,
        runs=args.runs,
        peers=_peers(args),
        server=_server(args),
        minutes=args.minutes,
        sampling=Sampling(**{name: getattr(args, name) for name in LAW}),
    )


def _peers(args: argparse.Namespace) -> tuple[str, ...]:
    """A server that was named is meant to be measured."""
    peers = tuple(name for name in names([args.peers or TRANSFORMERS]) if name != "none")
    if args.llama_server and args.peers is None:
        peers = (*peers, LLAMA)
    return peers


def _server(args: argparse.Namespace) -> Server | None:
    if args.llama_server is None and args.gguf is None:
        return None
    if args.llama_server is None or args.gguf is None:
        raise SettingError("llama.cpp needs its server and a file.", "Name both, or neither.")
    for path in (args.llama_server, args.gguf):
        if not path.is_file():
            raise SettingError(f"{path} is not there.", "Check --llama-server and --gguf.")
    return Server(args.llama_server, args.gguf)


def _check_synthetic(args: argparse.Namespace) -> None:
    """Random weights come from no file: an option about files would be ignored."""
    told = [("--target", args.target), ("--gguf", args.gguf)]
    told += [("--weights", args.weights)] if args.weights != "bf16" else []
    if args.synthetic and (named := [name for name, value in told if value]):
        raise SettingError(
            f"{named[0]} says nothing about random weights.", "Leave it out, or --synthetic."
        )


def _check_outputs(args: argparse.Namespace) -> None:
    """A file that cannot be written should not be found out after an hour."""
    if not 0 <= args.accept <= 1:
        raise SettingError(f"--accept is {args.accept:g}.", "It must be between 0 and 1.")
    for path in (args.json, args.png):
        if path is not None and not path.absolute().parent.is_dir():
            raise SettingError(f"There is no folder {path.absolute().parent}.", "Make it first.")


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
