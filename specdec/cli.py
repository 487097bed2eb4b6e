"""The terminal: `generate` makes one reply, `models` lists what there is. Knows the contract.

Bad input anywhere is one line on stderr with a hint and exit code 2.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import fields

from specdec import catalogue, cli_check, cli_store
from specdec.bench import command as bench
from specdec.contract import (
    ChatEngine,
    ChatRequest,
    Event,
    Failed,
    Finished,
    Message,
    NeverCancel,
    Notice,
    Phase,
    Round,
    Sampling,
    Started,
)
from specdec.errors import EngineError, SettingError, SpecdecError
from specdec.options import DRAFT_DTYPES, DTYPES, WEIGHTS, EngineOptions
from specdec.paths import data_dir
from specdec.torch_env import prepare
from specdec.training import command as training


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0, 1 when the engine failed, 2 for bad input, 130 for Ctrl-C."""
    try:
        args = _parser().parse_args(argv)
        return int(args.run(args))
    except SpecdecError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise SettingError(message[:1].upper() + message[1:] + ".", f"See {self.prog} --help.")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="specdec", description=__doc__.splitlines()[0] if __doc__ else None)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    models = commands.add_parser("models", help="the registry, what is on disk, what fits")
    models.add_argument("--json", action="store_true")
    _engine_arguments(models)
    models.set_defaults(run=_models)
    generate = commands.add_parser("generate", help="make one reply")
    _engine_arguments(generate)
    _request_arguments(generate)
    generate.add_argument(
        "--no-ngram-store",
        dest="ngram_store",
        action="store_false",
        help="neither read nor keep earlier replies for n-gram drafts",
    )
    generate.set_defaults(run=_generate)
    cli_check.add_command(commands, _engine_arguments, _options)
    cli_store.add_command(commands)
    bench.add_command(commands, _engine_arguments, _options)
    training.add_command(commands, _options)
    return parser


def _engine_arguments(parser: argparse.ArgumentParser) -> None:
    """None means what it means in `EngineOptions`: choose."""
    parser.add_argument("--target", metavar="ID", help="registry id or local folder")
    parser.add_argument(
        "--draft", metavar="ID", help="registry id, ngram, early-exit, none, or auto: several"
    )
    parser.add_argument("--device", help="cpu, cuda, cuda:1 or mps")
    parser.add_argument("--dtype", choices=DTYPES)
    parser.add_argument("--draft-dtype", choices=DRAFT_DTYPES)
    parser.add_argument("--weights", choices=WEIGHTS, help="form of the target's; see README")
    parser.add_argument("--data-dir", metavar="DIR", help="where chats and models are kept")
    parser.add_argument("--offline", action="store_true", help="never use the network")


def _request_arguments(parser: argparse.ArgumentParser) -> None:
    request, sampling = ChatRequest(()), Sampling()
    parser.add_argument("--prompt", required=True, metavar="TEXT")
    parser.add_argument("--system", metavar="TEXT")
    parser.add_argument("--mode", choices=("speculative", "standard"), default=request.mode)
    parser.add_argument("--rule", choices=("match", "reject"), default=request.rule)
    parser.add_argument("--runner", choices=("auto", "static", "fast"), default=request.runner)
    parser.add_argument("--k", type=int, metavar="N", help="most tokens drafted a round")
    for field in fields(Sampling):
        value = getattr(sampling, field.name)
        flag = "--" + field.name.replace("_", "-")
        if field.name == "stop":
            parser.add_argument(flag, action="append", default=[], metavar="STR")
        else:
            kind = int if value is None else type(value)
            parser.add_argument(flag, type=kind, default=value, help=f"default {value}")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")


def _options(args: argparse.Namespace) -> EngineOptions:
    given = {f.name: getattr(args, f.name) for f in fields(EngineOptions) if hasattr(args, f.name)}
    return EngineOptions(**{**given, "data_dir": data_dir(args.data_dir)})


def _models(args: argparse.Namespace) -> int:
    rows = catalogue.rows(_options(args))
    if args.json:
        print(json.dumps([catalogue.as_json(row) for row in rows], indent=1))
        return 0
    print(catalogue.table(rows))
    return 0


def _generate(args: argparse.Namespace) -> int:
    if not args.prompt.strip():
        raise SettingError("The prompt is empty.", "Write something after --prompt.")
    settings = {field.name: getattr(args, field.name) for field in fields(Sampling)}
    sampling = Sampling(**{**settings, "stop": tuple(args.stop)})
    system = (Message("system", args.system),) if args.system else ()
    request = ChatRequest(
        (*system, Message("user", args.prompt)),
        sampling,
        args.mode,
        args.rule,
        args.k,
        runner=args.runner,
        remember=True,
    )
    catalogue.check_ids(_options(args), args.target, args.draft)
    prepare()
    from specdec.engine import LocalEngine  # torch is imported only when it is needed

    engine = LocalEngine(_options(args))
    try:
        _load(engine, args)
        return _print_reply(engine, request, args.json)
    finally:
        engine.close()


def _load(engine: ChatEngine, args: argparse.Namespace) -> None:
    said = ""
    for event in engine.load(args.target, args.draft):
        if isinstance(event, Failed):
            raise event.error.revive()
        if isinstance(event, Phase) and event.name != said:
            said = event.name
            print(f"{event.name} {event.model} {event.detail}".strip() + " ...", file=sys.stderr)


def _print_reply(engine: ChatEngine, request: ChatRequest, as_json: bool) -> int:
    finished = False
    for event in engine.stream(request, NeverCancel()):
        if isinstance(event, Failed):
            raise event.error.revive()
        for text in _remarks(event):
            print(text, file=sys.stderr)
        if isinstance(event, Round) and not as_json:
            print(event.text, end="", flush=True)
        if isinstance(event, Finished):
            if as_json:
                print(json.dumps(_as_json(event), ensure_ascii=False))
            else:
                print(f"\n\n{event.metrics.tok_s:.1f} tok/s", file=sys.stderr)
            finished = True  # the engine may still have something to keep
    if not finished:
        raise EngineError("The reply ended without saying why.", "Please report this.")
    return 0


def _remarks(event: Event) -> tuple[str, ...]:
    """What the user should read about the reply, beside its text."""
    if isinstance(event, Notice):
        return (event.text,)
    if not isinstance(event, Started):
        return ()
    dropped = event.dropped_turns
    left_out = (f"{dropped} of the oldest turns did not fit and were left out.",) if dropped else ()
    return (*left_out, event.notice) if event.notice else left_out


def _as_json(reply: Finished) -> dict[str, object]:
    return {
        "text": reply.text,
        "token_ids": list(reply.ids),
        "finish_reason": reply.reason,
        "metrics": reply.metrics.to_json(),
    }
