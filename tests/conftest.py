"""For every test: torch's threads wait as they do in the program, set before torch is imported."""

from specdec.threads import wait_politely

wait_politely()
