"""Heads trained to draft for one target from its hidden states. Knows nothing of rounds."""
