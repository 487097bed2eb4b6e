"""Speculative decoding: a draft proposes, the target verifies, the words stay the target's."""
