"""What goes wrong, as OpenAI's clients read it: a status and an `error` object. Knows no routes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from starlette.responses import JSONResponse

from specdec.contract import ErrorInfo
from specdec.errors import SettingError

STATUS: Mapping[str, int] = {
    "SettingError": 400,
    "PromptError": 400,
    "UnknownModelError": 404,
    "BusyError": 429,
    "SourceError": 503,
    "FitError": 503,
    "LoadError": 503,
    "PairError": 503,
    "DeviceError": 503,
}
"""HTTP status by kind of error; any other is 500."""

TYPES: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


class BadFieldError(SettingError):
    """A request that is not understood; `field` is the path of what is wrong in it."""

    def __init__(self, field: str, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.field = field

    @classmethod
    def of(cls, error: ValidationError) -> BadFieldError:
        """The first thing that pydantic found."""
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"] if part not in ("str", "list[Part]"))
        if first["type"] == "extra_forbidden":
            return cls(field, f"{field!r} is not supported here.", "Leave it out.")
        return cls(field, f"{field or 'The request'}: {first['msg']}.")


def status_of(error: ErrorInfo) -> int:
    """The HTTP status of an error."""
    return STATUS.get(error.kind, 500)


def error_object(message: str, status: int, field: str | None = None) -> dict[str, Any]:
    """The body of an answer that failed."""
    kind = TYPES.get(status, "server_error")
    return {"error": {"message": message, "type": kind, "param": field, "code": status}}


def refuse(error: SettingError | ErrorInfo) -> JSONResponse:
    """The whole answer."""
    info = error if isinstance(error, ErrorInfo) else ErrorInfo.of(error)
    field = error.field if isinstance(error, BadFieldError) else None
    status = 400 if field is not None else status_of(info)
    return JSONResponse(error_object(str(error), status, field), status)


def unauthorised() -> JSONResponse:
    """A request without the key."""
    message = "This needs the API key that was printed where the program was started."
    headers = {"WWW-Authenticate": "Bearer"}
    return JSONResponse(error_object(message, 401), 401, headers)
