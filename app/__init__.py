"""The page and the local API around the engine. Never imports torch."""
