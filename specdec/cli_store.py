"""`specdec store`: what is kept of earlier replies for n-gram drafts, and how it is cleared.

Knows the store's files; nothing of models.
"""

from __future__ import annotations

import argparse
from typing import Any

from specdec.drafters import store_file
from specdec.paths import data_dir


def add_command(commands: Any) -> None:
    """Add `store` to the subparsers."""
    parser = commands.add_parser("store", help="earlier replies kept for n-gram drafts")
    parser.add_argument("--clear", action="store_true", help="delete them")
    parser.add_argument("--data-dir", metavar="DIR", help="where chats and models are kept")
    parser.set_defaults(run=_store)


def _store(args: argparse.Namespace) -> int:
    """Exit code 0; 1 where they cannot be deleted."""
    folder = data_dir(args.data_dir)
    if args.clear:
        print(f"{_replies(store_file.forget(folder))} deleted.")
        return 0
    kept, size = store_file.kept_in(folder)
    print(f"{_replies(kept)}, {size:,} bytes of token ids, in {store_file.folder_of(folder)}.")
    return 0


def _replies(count: int) -> str:
    return f"{count:,} {'reply' if count == 1 else 'replies'}"
