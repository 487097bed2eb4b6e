"""One small tree of errors. Every error carries what happened and what to do about it.

Knows nothing of models, pages or processes. The class name travels over the pipe as `kind`.
"""

from __future__ import annotations


class SpecdecError(Exception):
    """Something a user can read: `message` says what happened, `hint` what to do."""

    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()

    def __reduce__(self) -> tuple[type[SpecdecError], tuple[str, str]]:
        return type(self), (self.message, self.hint)  # keeps the hint when pickled


class SettingError(SpecdecError):
    """A setting outside its range, or an option that does not exist."""


class RegistryError(SpecdecError):
    """`model_registry.json` or the user's own registry file is not valid; names the field."""


class UnknownModelError(SpecdecError):
    """No such id in the registry; the hint names the nearest ones."""


class SourceError(SpecdecError):
    """Weights cannot be fetched: no network, gated, checksum, disk space."""


class BrokenConnectionError(SourceError):
    """The network failed in mid-fetch; what came is kept, and another try goes on from there."""


class FitError(SpecdecError):
    """The model does not fit in the memory that is free."""


class PairError(SpecdecError):
    """The draft cannot serve this target; the message says which token or limit differs."""


class LoadError(SpecdecError):
    """Files are on disk but do not make a model: truncated, pickled, unknown architecture."""


class DeviceError(SpecdecError):
    """The device or dtype asked for is not there or computes wrong numbers."""


class PromptError(SpecdecError):
    """The conversation cannot be turned into a prompt: too long, bad role, template refuses."""


class EngineError(SpecdecError):
    """The engine failed in mid-answer, or its process died."""

    exit_code = 1


class BusyError(SpecdecError):
    """The queue is full."""

    exit_code = 1


class HistoryError(SpecdecError):
    """Stored conversations cannot be read or written, or the one asked for is gone."""

    exit_code = 1


class StoreError(SpecdecError):
    """Earlier replies kept for n-gram drafts cannot be changed."""

    exit_code = 1
