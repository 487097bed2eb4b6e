"""How fast plain decoding could be: bytes a token reads over the bandwidth measured. Arithmetic."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Physics:
    """`bandwidth` in bytes a second, `step_bytes` the weights that one token reads."""

    bandwidth: float
    step_bytes: int
    how: str

    @property
    def limit(self) -> float:
        """Tokens a second that plain decoding cannot pass: each reads every weight once."""
        return self.bandwidth / self.step_bytes

    def share(self, tok_s: float) -> float:
        """Of the plain limit; speculation may pass 1."""
        return tok_s / self.limit
