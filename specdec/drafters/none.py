"""The drafter that proposes nothing: with it the decode loop is plain decoding. Knows nothing."""

from __future__ import annotations

from collections.abc import Sequence

from specdec.drafters.base import Context, Draft, Offer


class NoDrafter:
    """Standard mode, and a pair without a draft."""

    name = "none"
    wants_hidden = False

    def begin(self, tokens: Sequence[int]) -> None:
        """Nothing to prepare."""

    def offers(self, tokens: Sequence[int]) -> Sequence[Offer]:
        """Nobody."""
        return ()

    def catch_up(self, tokens: Sequence[int]) -> bool:
        """Nothing to read."""
        return True

    def propose(self, context: Context, k: int) -> Draft:
        """No tokens."""
        return Draft()

    def settle(self, tokens: Sequence[int], accepted: int) -> None:
        """Nothing to learn."""
