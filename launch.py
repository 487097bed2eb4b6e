"""The one command: makes its own environment if needed, starts the engine, serves the page.

Knows both sides, the page and the engine, and nothing else does. Standard library only at the top:
everything else may not be installed yet.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
PYTHONS = ((3, 11), (3, 14))


def main(argv: list[str]) -> int:
    """Exit code 0 after Ctrl-C, 2 for bad input, 1 for what went wrong later."""
    if not PYTHONS[0] <= sys.version_info[:2] < PYTHONS[1]:
        have = "{}.{}".format(*sys.version_info[:2])
        print(f"launch.py: needs Python 3.11 to 3.13; this is {have}.", file=sys.stderr)
        return 2
    from app import environment
    from app.options import parse
    from specdec.errors import SpecdecError

    try:
        options = parse(argv)
        environment.ensure(ROOT, argv, venv=options.venv, yes=options.yes, say=_say)
        from app.run import run
        from specdec.process import ProcessEngine

        return run(options, ProcessEngine, _say)
    except SpecdecError as error:
        print(f"launch.py: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 130


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
