"""The error answers: a response for each status, with the codes that routes of a kind can have.

Codes and their statuses come from the table of codes.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from spinf_serve.packs.errors import CODES, SpinfError
from spinf_serve.server.auth import ANYBODY
from spinf_serve.server.openapi.forms import (
    Schema,
    either,
    filled,
    items,
    optional,
    record,
    ref,
    text,
    word,
)
from spinf_serve.server.openapi.operation import JSON, answer
from spinf_serve.server.problems import SYSTEM_ONE_REQUEST_ID, Envelope, envelope, status_of

Kind = Literal["Scoring", "Batch", "SystemOne", "Decisions"]
"""Kinds of routes: those that score, with those that only tell something; those of batch files; the
System One format with errors of its own; and the route that answers in this or the common form."""

NO_SUCH_PACK = "NoSuchPack"
"""Component of the answer to a path that names a pack or version which is not there."""

NO_SUCH_MODEL = "NoSuchModel"
"""The same for the name of a model."""

_KINDS: tuple[Kind, ...] = ("Scoring", "Batch", "SystemOne", "Decisions")
_NAMES = {
    400: "Refused",
    401: "Unauthorized",
    404: "NotFound",
    413: "TooLarge",
    415: "UnknownEncoding",
    422: "NotUnderstood",
    429: "Busy",
    500: "Failed",
    503: "Unavailable",
    504: "TooLate",
}
_ABOUT = {
    400: "The request cannot succeed as it is; `param` says which field is at fault.",
    401: "The bearer token is missing or wrong.",
    404: "What the path names is not there.",
    413: "The body, or what it asks for, is larger than this server takes.",
    415: "The body is encoded in a way that this server does not read.",
    422: "The body does not say what it should; `loc` says where.",
    429: "Too many requests are waiting; the same one may succeed later.",
    500: "The server failed on this request.",
    503: "The model is loading or could not be loaded, or the server is ending.",
    504: "The request's deadline came first.",
}
_HEADERS = {401: ("WWW-Authenticate",), 429: ("Retry-After",), 503: ("Retry-After",)}
_OF_PATH = ("unknown_pack", "unknown_pack_version", "pack_not_available")
_IN_PATHS = ("unknown_file", "unknown_batch")
_OF_BATCHES = frozenset(
    {"batches_disabled", "unknown_file", "unknown_batch", "file_in_use", "batch_ended"}
    | {"storage_full", "storage_unavailable"}
)
_OF_QUERIES = frozenset(
    {
        "scoring_required",
        "no_chat_template",
        "invalid_template",
        "missing_value",
        "unknown_placeholder",
    }
    | {"too_many_combinations", "option_too_long", "unknown_query_id", "too_many_extractions"}
    | {"media_disabled", "extraction_disabled", "generation_disabled", "unknown_pack"}
    | {"unknown_pack_version", "pack_not_available", "pack_media_not_supported"}
    | {"pack_of_other_model", "pack_conflict", "unknown_category", "reserved_group"}
)
# Codes of other routes that those of batch files answer with too.
_ALSO_OF_BATCHES = frozenset(
    {"invalid_json", "invalid_encoding", "invalid_field", "invalid_token", "body_too_large"}
    | {"engine_error", "warming_up", "model_unavailable"}
)


def may_end_in(*statuses: int, kind: Kind = "Scoring") -> dict[int, str]:
    """Status -> component, as an operation lists the errors it may end in."""
    return {status: f"{kind}{_NAMES[status]}" for status in statuses}


def responses(used: Iterable[str]) -> dict[str, Schema]:
    """Component name -> response, for those that operations use."""
    paths = {
        NO_SUCH_PACK: ("No pack or version of that name is served.", _OF_PATH),
        NO_SUCH_MODEL: ("No model of that name is served.", ("model_not_served",)),
    }
    made = {
        f"{kind}{_NAMES[status]}": _response(kind, status)
        for kind in _KINDS
        for status in _NAMES
        if _codes(kind, status)
    } | {
        name: answer(about, {JSON: {"schema": either(_schema(404, codes), ref("NoRoute"))}})
        for name, (about, codes) in paths.items()
    }
    return {name: made[name] for name in sorted(set(used))}


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
        ),
        "NoRoute": filled(
            {"detail": text()}, "Of a name that no path can have, with a slash in it."
        ),
        "SystemOneError": filled({"detail": _described()}, "An error in the form of System One."),
        "SystemOneFaults": filled(
            {"detail": items(_located(), least=1)},
            "An error about the body in the form of System One.",
        ),
    }


def _described() -> Schema:
    return filled(
        {
            "error_type": text("kind of error, one for each status"),
            "message": text("what is wrong, for people"),
            "code": text("what is wrong, for programs; [all codes](error-codes.md)"),
        }
    )


def _located() -> Schema:
    return filled(
        {
            "loc": items({"type": ["string", "integer"]}, "where, beginning with `body`", least=1),
            "msg": text("what is wrong, for people"),
            "type": text("what is wrong, for programs; [all codes](error-codes.md)"),
        }
    )


def _response(kind: Kind, status: int) -> Schema:
    codes = _codes(kind, status)
    headers: tuple[str, ...] = _HEADERS.get(status, ())
    if kind == "SystemOne":
        schema = _detail(status, codes)
        headers += (SYSTEM_ONE_REQUEST_ID,)
    elif kind == "Decisions":
        common = [name for name in codes if CODES[name].status == status]
        detail = _detail(status, _codes("SystemOne", status))
        schema = either(*([_schema(status, common)] if common else []), detail)
    elif status == 404:
        schema = either(_schema(status, codes), ref("NoRoute"))
    else:
        schema = _schema(status, codes)
    return answer(_ABOUT[status], {JSON: {"schema": schema}}, *headers)


def _codes(kind: Kind, status: int) -> list[str]:
    """Codes that a kind of routes answers with a status, in the order of the table."""
    if kind == "SystemOne":
        found = _with_status(status, Envelope.DETAIL)
        return [name for name in found if name not in _OF_BATCHES | _OF_QUERIES]
    if kind == "Decisions":
        both = dict.fromkeys(_with_status(status, Envelope.ERROR) + _codes("SystemOne", status))
        return [name for name in both if name not in _OF_BATCHES | _OF_QUERIES]
    found = _with_status(status, Envelope.ERROR)
    if kind == "Batch":
        found = list(_IN_PATHS) if status == 404 else found
        return [name for name in found if name in _OF_BATCHES | _ALSO_OF_BATCHES]
    return [name for name in found if name not in _OF_BATCHES]


def _with_status(status: int, form: Envelope) -> list[str]:
    return [name for name in CODES if status_of(SpinfError(name, "x"), form) == status]


def _detail(status: int, codes: Sequence[str]) -> Schema:
    """The schema of an error of System One with the codes that a status can have."""
    if status == 422:
        narrow = record({"detail": items(record({"type": word("", *codes)}))})
        return {"allOf": [ref("SystemOneFaults"), narrow]}
    return {
        "allOf": [ref("SystemOneError"), record({"detail": record({"code": word("", *codes)})})]
    }


def _schema(status: int, codes: Sequence[str]) -> Schema:
    """The error's schema with the type and the codes that a status can have."""
    # A path that names nothing answers codes whose own status is another.
    kind = _type_of(codes[0]) if CODES[codes[0]].status == status else "not_found"
    error = record({"type": word("", kind), "code": word("", *codes)})
    return {"allOf": [ref("Error"), record({"error": error})]}


def _type_of(code: str) -> str:
    """The type that goes with a code, read off an envelope."""
    kind: str = envelope(SpinfError(code, "x"), "x", ANYBODY)["error"]["type"]
    return kind


def _types() -> list[str]:
    return sorted({_type_of(name) for name in CODES} | {"not_found"})
