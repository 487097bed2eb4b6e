"""Times this engine and others on one pair, in one run. Outside: the CLI, and the page's sums."""
