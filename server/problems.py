"""One table from error to HTTP answer: status, headers and the body that clients read.

Clients of the System One format read `detail`, all others `error`.
"""

import json
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any

from spinf_serve.packs.errors import Busy, Refused, SpinfError
from spinf_serve.server.auth import Caller

_TYPES: Mapping[int, str] = {
    400: "invalid_request",
    401: "authentication_error",
    404: "not_found",
    413: "invalid_request",
    415: "invalid_request",
    429: "rate_limited",
    503: "unavailable",
}
_DETAIL_TYPES: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    415: "invalid_request_error",
    422: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
# Refusals of what a body says, and not of its size or of what is served.
_ABOUT_THE_BODY = frozenset(
    {
        "invalid_json",
        "invalid_field",
        "invalid_encoding",
        "missing_value",
        "too_many_options",
        "duplicate_option",
        "empty_queries",
        "invalid_media",
        "unsupported_content",
    }
)
# What stands in brackets is a JSON text with the escapes that `json.dumps` makes; whatever only looks
# like one, as a caller's key may, is read as plain steps.
_STEP = re.compile(r"""\[("(?:[^"\\\x00-\x1f]|\\(?:["\\bfnrt]|u00[01][0-9a-f]))*")\]|([^.\[\]]+)""")
# A message quotes what the caller sent, and that may be megabytes.
_MAX_MESSAGE_CHARS = 2000
_MAX_PARAM_CHARS = 300


SYSTEM_ONE = "/v1/systemone"
"""The path of the System One format."""

SYSTEM_ONE_REQUEST_ID = "x-typesafe-request-id"
"""Header in which that format's clients look for the id of an answer."""


class Envelope(Enum):
    """The form of an error's body."""

    ERROR = "error"
    DETAIL = "detail"


def envelope_of(path: str, state: Mapping[str, Any]) -> Envelope:
    """The form of a request's errors: what its route found out, else what its path says."""
    found = state.get("envelope")
    if isinstance(found, Envelope):
        return found
    return Envelope.DETAIL if path == SYSTEM_ONE else Envelope.ERROR


def status_of(error: SpinfError, form: Envelope) -> int:
    """The HTTP status: that of the code, but 422 for a body that does not say what it should."""
    about_the_body = error.status == 400 and error.code in _ABOUT_THE_BODY
    return 422 if form is Envelope.DETAIL and about_the_body else error.status


class NotFound(Refused):
    """A refusal whose path names what does not exist: 404, whatever the code answers elsewhere."""

    @property
    def status(self) -> int:
        """404."""
        return 404


class Stalled(Refused):
    """A refusal of a request that does not come to its end; its connection is of no more use."""


def envelope(
    error: SpinfError, request_id: str, caller: Caller, form: Envelope = Envelope.ERROR
) -> dict[str, Any]:
    """The body of an error answer."""
    if form is Envelope.DETAIL:
        return _detail(error, status_of(error, form))
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


def _detail(error: SpinfError, status: int) -> dict[str, Any]:
    message = _bounded(error.message, _MAX_MESSAGE_CHARS)
    if status == 422:
        entry = {"loc": _location(error.param), "msg": message, "type": error.code}
        return {"detail": [entry]}
    kind = _DETAIL_TYPES.get(status, "api_error")
    return {"detail": {"error_type": kind, "message": message, "code": error.code}}


def _location(param: str | None) -> list[str | int]:
    """A dotted path taken apart, behind `body`; a key that dots would cut stands in brackets."""
    steps: list[str | int] = []
    for quoted, plain in _STEP.findall(_bounded(param or "body", _MAX_PARAM_CHARS)):
        steps.append(json.loads(quoted) if quoted else int(plain) if plain.isdecimal() else plain)
    return steps if steps[:1] == ["body"] else ["body", *steps]


def headers(
    error: SpinfError, request_id: str = "", form: Envelope = Envelope.ERROR
) -> dict[str, str]:
    """The headers of an error answer besides `X-Request-Id`."""
    found = {SYSTEM_ONE_REQUEST_ID: request_id} if form is Envelope.DETAIL else {}
    return found | _headers(error)


def _headers(error: SpinfError) -> dict[str, str]:
    if isinstance(error, Busy):
        return {"Retry-After": str(error.retry_after_seconds)}
    if isinstance(error, Stalled):
        return {"Connection": "close"}
    return {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}


def _bounded(text: str, size: int) -> str:
    # Half a surrogate pair of a key that is quoted has no bytes in UTF-8: it is written as its escape.
    text = text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
    if len(text) <= size:
        return text
    return f"{text[:size]}… ({len(text)} characters in all)"
