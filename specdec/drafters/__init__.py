"""Drafters: each proposes tokens and learns what became of them. One file each."""
