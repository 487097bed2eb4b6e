"""`specdec train-draft`: an EAGLE-3 head for a target, made on this machine. One idea a file."""
