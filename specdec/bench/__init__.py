"""Times this engine and others on one pair, in one run. Nothing outside imports it but the CLI."""
