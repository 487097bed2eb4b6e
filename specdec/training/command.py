"""`specdec train-draft`: the arguments, progress on stderr, the result on stdout.

No torch at import.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from specdec import catalogue
from specdec.options import DTYPES, EngineOptions
from specdec.torch_env import prepare
from specdec.training.plan import DISK_GB, SEED, VOCAB, Plan


def add_command(commands: Any, options: Callable[[argparse.Namespace], EngineOptions]) -> None:
    """Add `train-draft` to the subparsers; `options` reads what all commands share."""
    parser = commands.add_parser("train-draft", help="make a draft head for a target, here")
    add = parser.add_argument
    add("--target", required=True, metavar="ID", help="registry id or local folder")
    add("--data", type=Path, metavar="FILE", help='JSONL: {"messages": [...]} or {"text": "..."}')
    add("--self-generate", type=int, metavar="N",
        help="let the target write its own chats, N in all; alone or beside --data")  # fmt: skip
    add("--minutes", type=float, required=True, metavar="M", help="bound of it all")
    add("--out", type=Path, required=True, metavar="DIR", help="the head; the same again goes on")
    add("--steps", type=int, metavar="N", help="most updates; default: what the minutes give")
    add("--vocab", type=int, default=VOCAB, metavar="N", help=f"ids it drafts; default {VOCAB}")
    add("--disk", type=float, default=DISK_GB, metavar="GB",
        help=f"most that hidden states take; default {DISK_GB:g}")  # fmt: skip
    add("--seed", type=int, default=SEED, metavar="N", help=f"default {SEED}")
    add("--device", help="cpu, cuda, cuda:1 or mps")
    add("--dtype", choices=DTYPES, help="of the target")
    add("--data-dir", metavar="DIR", help="where models are kept, and the head is registered")
    add("--offline", action="store_true", help="never use the network")
    parser.set_defaults(run=lambda args: _train(args, options(args)))


def _train(args: argparse.Namespace, options: EngineOptions) -> int:
    """Exit code 0; whatever keeps the head from being made is an error."""
    plan = Plan(
        options=options,
        target=args.target,
        data=args.data,
        write=args.self_generate,
        minutes=args.minutes,
        out=args.out.expanduser().absolute(),
        updates=args.steps,
        vocab=args.vocab,
        disk_gb=args.disk,
        seed=args.seed,
        command=shlex.join(["python", "-m", "specdec", *sys.argv[1:]]),
    )
    catalogue.check_ids(options, args.target, None)
    prepare()
    from specdec.assemble import explain  # torch is imported only when it is needed
    from specdec.training.run import train_draft

    try:
        name = train_draft(plan, _tell)
    except Exception as error:
        raise explain(error) from error
    print(f"{name} is in {plan.out}")
    return 0


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
