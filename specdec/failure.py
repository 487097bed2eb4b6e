"""An error as data, and the event that ends a stream with one. Part of the contract."""

from __future__ import annotations

from dataclasses import dataclass

from specdec import errors
from specdec.errors import SpecdecError


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """An error as data: `kind` is the class in `specdec.errors`."""

    kind: str
    message: str
    hint: str = ""

    @classmethod
    def of(cls, error: BaseException) -> ErrorInfo:
        """A SpecdecError keeps its hint; anything else is named by its type."""
        if isinstance(error, SpecdecError):
            return cls(type(error).__name__, error.message, error.hint)
        return cls(
            type(error).__name__,
            f"{type(error).__name__}: {error}",
            "See the log in the data folder.",
        )

    def revive(self) -> SpecdecError:
        """The error this was made of; a kind that is not ours comes back as an EngineError."""
        kind = getattr(errors, self.kind, errors.EngineError)
        made: SpecdecError = kind(self.message, self.hint)
        return made

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


@dataclass(frozen=True, slots=True)
class Failed:
    """The stream or load ended in an error. What was already sent stays valid but incomplete."""

    error: ErrorInfo
