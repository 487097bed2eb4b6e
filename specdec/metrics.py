"""Counters of one reply: counts and clock readings; every ratio is a property with its definition.

Counts are of *kept* tokens: what came after an end token, a stop string or the limit is in none,
and a round that found nothing but the end is not counted.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Metrics:
    """Times in seconds, from the decode loop's own monotonic clock, never from the page."""

    prompt_tokens: int = 0
    reused_tokens: int = 0
    new_tokens: int = 0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    first_token_s: float = 0.0  # from the start of the turn to the first token, prefill included
    decode_s: float = 0.0  # from the first token to the last
    draft_s: float = 0.0  # inside the drafter, part of decode_s
    first_round_tokens: int = 0  # tokens that came with the first round; they are not in decode_s

    @property
    def tok_s(self) -> float:
        """Tokens a second while decoding: those after the first round / time after it."""
        later = self.new_tokens - self.first_round_tokens
        return later / self.decode_s if later > 0 and self.decode_s > 0 else 0.0

    @property
    def tokens_per_round(self) -> float:
        """Mean tokens a round adds to the reply; the bonus or corrected token counts."""
        return self.new_tokens / self.rounds if self.rounds else 0.0

    @property
    def acceptance(self) -> float:
        """Share of drafted tokens that were kept."""
        return self.accepted / self.drafted if self.drafted else 0.0

    def to_json(self) -> dict[str, Any]:
        """Counters and ratios, rounded, in the names the CLI and the API print."""
        row = {k: round(v, 4) if isinstance(v, float) else v for k, v in asdict(self).items()}
        row["tok_s"] = round(self.tok_s, 3)
        row["tokens_per_round"] = round(self.tokens_per_round, 3)
        row["acceptance"] = round(self.acceptance, 4)
        return row
