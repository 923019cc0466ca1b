"""The error answers: a response for each status, with the codes that the table of codes has for it."""

from collections.abc import Iterable

from spinf_serve.packs.errors import CODES, SpinfError
from spinf_serve.server.auth import ANYBODY
from spinf_serve.server.openapi.forms import Schema, optional, record, ref, text, word
from spinf_serve.server.openapi.operation import JSON, answer
from spinf_serve.server.problems import envelope

NO_SUCH_PACK = "NoSuchPack"
"""Component of the answer to a path that names a pack or version which is not there."""

_NAMES = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    413: "TooLarge",
    429: "Busy",
    500: "Failed",
    503: "Unavailable",
    504: "TooLate",
}
_ABOUT = {
    400: "The request cannot succeed as it is; `param` says which field is at fault.",
    401: "The bearer token is missing or wrong.",
    403: "The bearer token does not give this right.",
    404: "What the path names is not there.",
    409: "What the path names is not in a state for this.",
    413: "The body, or what it asks for, is larger than this server takes.",
    429: "Too many requests are waiting; the same one may succeed later.",
    500: "The server failed on this request; asking again the same way will not help.",
    503: "The model is loading, could not be loaded, or the server is ending.",
    504: "The request's deadline came first.",
}
_HEADERS = {401: ("WWW-Authenticate",), 429: ("Retry-After",), 503: ("Retry-After",)}
_OF_PATH = ("unknown_pack", "unknown_pack_version", "pack_not_available")


def component(status: int) -> str:
    """Name of the response for a status."""
    return _NAMES[status]


def on(*statuses: int) -> dict[int, str]:
    """Status -> component, as an operation lists the errors it may end in."""
    return {status: component(status) for status in statuses}


ASKED = on(400, 401, 413, 429, 500, 503)
"""What a route that scores may end in."""

LOOKED_UP = on(401, 503)
"""What a route may end in that tells of the served model or packs."""


def responses() -> dict[str, Schema]:
    """Component name -> response, one for each status that a code has."""
    statuses = sorted({code.status for code in CODES.values()})
    made = {component(status): _response(status, _codes(status)) for status in statuses}
    made[NO_SUCH_PACK] = answer(
        "No pack or version of that name is served.", {JSON: {"schema": _schema(404, _OF_PATH)}}
    )
    return made


def schemas() -> dict[str, Schema]:
    """Component name -> schema, of what all errors have in common."""
    problem = record(
        {
            "type": word("kind of error, one for each status", *_types()),
            "code": word(
                "what is wrong, for programs; [all codes](error-codes.md)", *sorted(CODES)
            ),
            "message": text("what is wrong, for people: the value, the limit, what to do"),
            "param": optional(text("dotted path of the field at fault, where there is one")),
        },
        ("type", "code", "message", "param"),
    )
    rejected = {name: problem["properties"][name] for name in ("code", "message", "param")}
    return {
        "Error": record(
            {
                "error": problem,
                "request_id": text("as in the header `X-Request-Id`"),
                "rejected": record(
                    rejected, rejected, "the same, for trusted callers, with 400 and 413"
                ),
            },
            ("error", "request_id"),
            "The body of an error.",
        )
    }


def _response(status: int, codes: Iterable[str]) -> Schema:
    schema = {JSON: {"schema": _schema(status, codes)}}
    return answer(_ABOUT[status], schema, *_HEADERS.get(status, ()))


def _schema(status: int, codes: Iterable[str]) -> Schema:
    """The error's schema with the codes and the type that a status can have."""
    kind = _type_of(next(iter(_codes(status)), None), status)
    narrow = {"code": word("", *codes), **({} if kind is None else {"type": word("", kind)})}
    return {"allOf": [ref("Error"), record({"error": record(narrow)})]}


def _codes(status: int) -> list[str]:
    return [code.name for code in CODES.values() if code.status == status]


def _type_of(code: str | None, status: int) -> str | None:
    """The type that goes with a status, read off an envelope."""
    if code is None:
        return "not_found" if status == 404 else None
    kind: str = envelope(SpinfError(code, "x"), "x", ANYBODY)["error"]["type"]
    return kind


def _types() -> list[str]:
    kinds = {_type_of(name, code.status) for name, code in CODES.items()}
    return sorted({kind for kind in kinds if kind is not None} | {"not_found"})
