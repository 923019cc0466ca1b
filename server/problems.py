"""One table from error to HTTP answer: status, headers and the body that clients read."""

from collections.abc import Mapping
from typing import Any

from spinf_serve.packs.errors import Busy, Refused, SpinfError
from spinf_serve.server.auth import Caller

_TYPES: Mapping[int, str] = {
    400: "invalid_request",
    401: "authentication_error",
    404: "not_found",
    413: "invalid_request",
    429: "rate_limited",
    503: "unavailable",
}
# A message quotes what the caller sent, and that may be megabytes.
_MAX_MESSAGE_CHARS = 2000
_MAX_PARAM_CHARS = 300


class NotFound(Refused):
    """A refusal whose path names what does not exist: 404, whatever the code answers elsewhere."""

    @property
    def status(self) -> int:
        """404."""
        return 404


class Stalled(Refused):
    """A refusal of a request that does not come to its end; its connection is of no more use."""


def envelope(error: SpinfError, request_id: str, caller: Caller) -> dict[str, Any]:
    """The body of an error answer."""
    message = _bounded(error.message, _MAX_MESSAGE_CHARS)
    param = None if error.param is None else _bounded(error.param, _MAX_PARAM_CHARS)
    about = {"code": error.code, "message": message, "param": param}
    body: dict[str, Any] = {
        "error": {"type": _TYPES.get(error.status, "api_error"), **about},
        "request_id": request_id,
    }
    if caller.trusted and error.status in (400, 413):
        body["rejected"] = about
    return body


def headers(error: SpinfError) -> dict[str, str]:
    """The headers of an error answer besides the request id."""
    if isinstance(error, Busy):
        return {"Retry-After": str(error.retry_after_seconds)}
    if isinstance(error, Stalled):
        return {"Connection": "close"}
    return {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}


def _bounded(text: str, size: int) -> str:
    if len(text) <= size:
        return text
    return f"{text[:size]}… ({len(text)} characters in all)"
