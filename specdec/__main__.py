"""`python -m specdec`."""

import sys

from specdec.cli import main

if __name__ == "__main__":  # a spawned worker imports this file too
    sys.exit(main())
