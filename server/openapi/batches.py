"""What the routes of batch files take and answer, in the shape of OpenAI's Files and Batches."""

from spinf_serve.server.batches.endpoints import ENDPOINTS
from spinf_serve.server.batches.records import (
    ENDED,
    EXPIRING,
    INPUT_PURPOSE,
    OUTPUT_PURPOSE,
    UNFINISHED,
)
from spinf_serve.server.openapi import errors
from spinf_serve.server.openapi.forms import (
    Schema,
    filled,
    flag,
    items,
    mapping,
    optional,
    record,
    ref,
    text,
    whole,
    word,
)
from spinf_serve.server.openapi.operation import (
    JSON,
    Operation,
    Reply,
    path_parameter,
    query_parameter,
)

TAG = "batches"
_ALWAYS = (400, 401, 500, 503)
_MOST_FILES, _MOST_BATCHES = 10_000, 100


def schemas() -> dict[str, Schema]:
    """Component name -> schema."""
    return {
        "Upload": _upload(),
        "File": _file(),
        "Files": _page("File"),
        "DeletedFile": filled(
            {"id": text(), "object": word("", "file"), "deleted": {"const": True}}
        ),
        "BatchRequest": _request(),
        "Batch": _batch(),
        "Batches": _page("Batch"),
    }


def operations() -> tuple[Operation, ...]:
    """All of them."""
    return (*_files(), *_batches())


def _may_end_in(*more: int) -> dict[int, str]:
    return errors.may_end_in(*_ALWAYS, *more, kind="Batch")


def _files() -> tuple[Operation, ...]:
    id = path_parameter("file_id", "id of a file", least=1)
    lines: Schema = {"type": "string", "description": "JSON objects, one a line."}
    return (
        Operation(
            "post",
            "/v1/files",
            "upload_file",
            TAG,
            "Upload a file of requests",
            "Each line is an object with `custom_id`, `method`, `url` and `body`. The size is limited "
            "by `max_batch_file_bytes`, and not by that of other bodies.",
            {200: Reply("It is kept.", {JSON: ref("File")})},
            _may_end_in(413),
            {"multipart/form-data": ref("Upload")},
        ),
        Operation(
            "get",
            "/v1/files",
            "files",
            TAG,
            "The caller's files",
            "The newest first. A trusted caller sees those of all callers.",
            {200: Reply("A page of them.", {JSON: ref("Files")})},
            _may_end_in(),
            parameters=(
                query_parameter("after", "id of the entry before the page", text()),
                _limit(_MOST_FILES),
                query_parameter("order", "by time", word("", "asc", "desc")),
                query_parameter(
                    "purpose", "only such files", word("", INPUT_PURPOSE, OUTPUT_PURPOSE)
                ),
            ),
        ),
        Operation(
            "get",
            "/v1/files/{file_id}",
            "file",
            TAG,
            "One file's description",
            "A caller's own file, or any for a trusted caller.",
            {200: Reply("The description.", {JSON: ref("File")})},
            _may_end_in(404),
            parameters=(id,),
        ),
        Operation(
            "get",
            "/v1/files/{file_id}/content",
            "file_content",
            TAG,
            "One file's bytes",
            "As they were uploaded, or the answers or errors that a batch wrote.",
            {200: Reply("The bytes.", {"application/jsonl": lines})},
            _may_end_in(404),
            parameters=(id,),
        ),
        Operation(
            "delete",
            "/v1/files/{file_id}",
            "delete_file",
            TAG,
            "Delete a file",
            "Refused while a batch that has not ended reads it.",
            {200: Reply("It is gone.", {JSON: ref("DeletedFile")})},
            _may_end_in(404),
            parameters=(id,),
        ),
    )


def _batches() -> tuple[Operation, ...]:
    id = path_parameter("batch_id", "id of a batch", least=1)
    return (
        Operation(
            "post",
            "/v1/batches",
            "create_batch",
            TAG,
            "Have the requests of a file answered",
            "In the background, behind all other requests. See [batches.md](batches.md).",
            {200: Reply("It has begun.", {JSON: ref("Batch")})},
            _may_end_in(413),
            {JSON: ref("BatchRequest")},
        ),
        Operation(
            "get",
            "/v1/batches",
            "batches",
            TAG,
            "The caller's batches",
            "The newest first. A trusted caller sees those of all callers.",
            {200: Reply("A page of them.", {JSON: ref("Batches")})},
            _may_end_in(),
            parameters=(
                query_parameter("after", "id of the entry before the page", text()),
                _limit(_MOST_BATCHES),
            ),
        ),
        Operation(
            "get",
            "/v1/batches/{batch_id}",
            "batch",
            TAG,
            "How far a batch has come",
            "A caller's own batch, or any for a trusted caller.",
            {200: Reply("The batch.", {JSON: ref("Batch")})},
            _may_end_in(404),
            parameters=(id,),
        ),
        Operation(
            "post",
            "/v1/batches/{batch_id}/cancel",
            "cancel_batch",
            TAG,
            "Stop a batch",
            "What was answered by then is kept in its output file.",
            {200: Reply("It stops.", {JSON: ref("Batch")})},
            _may_end_in(404),
            parameters=(id,),
        ),
    )


def _limit(most: int) -> Schema:
    return query_parameter("limit", "most entries of the page", whole(least=1, most=most))


def _upload() -> Schema:
    made = record(
        {
            "file": {
                "type": "string",
                "format": "binary",
                "description": "JSON objects, a line each",
            },
            "purpose": word("", INPUT_PURPOSE),
            "expires_after[anchor]": word("with the seconds", "created_at"),
            "expires_after[seconds]": whole(
                "how long it is kept; without it, and at most, as `batch_days` says", least=3600
            ),
        },
        ("file", "purpose"),
        "A form.",
        closed=True,
    )
    both = ["expires_after[anchor]", "expires_after[seconds]"]
    return made | {"dependentRequired": {both[0]: both[1:], both[1]: both[:1]}}


def _file() -> Schema:
    return filled(
        {
            "id": text(),
            "object": word("", "file"),
            "bytes": whole("its size", least=0),
            "created_at": _time("of the upload"),
            "expires_at": _time("when it may be deleted"),
            "filename": text("as the caller calls it"),
            "purpose": word("", INPUT_PURPOSE, OUTPUT_PURPOSE),
            "status": word("", "processed"),
            "status_details": {"type": "null"},
        },
        "A file that is kept.",
    )


def _request() -> Schema:
    expiry = record(
        {"anchor": word("", "created_at"), "seconds": whole(least=3600)},
        ("anchor", "seconds"),
        "how long its files are kept; without it as `batch_days` says",
        closed=True,
    )
    metadata = mapping(text(most=512), "the caller's own, up to 16 entries", keys={"maxLength": 64})
    return record(
        {
            "input_file_id": text("of an upload", most=128),
            "endpoint": word("the route that every row asks", *ENDPOINTS),
            "completion_window": text(
                "hours or days, up to 30 days", pattern=r"^[1-9][0-9]{0,3}[hd]$"
            ),
            "metadata": optional(metadata | {"maxProperties": 16}),
            "output_expires_after": optional(expiry),
        },
        ("input_file_id", "endpoint", "completion_window"),
        "A batch to be made. Unknown fields are refused.",
        closed=True,
    )


def _batch() -> Schema:
    states = [state for state in (*UNFINISHED, *ENDED) if state != EXPIRING]
    times = ("in_progress", "finalizing", "completed", "failed", "expired")
    flaw = filled(
        {
            "code": text("an [error code](error-codes.md)"),
            "message": text(),
            "param": optional(text()),
            "line": optional(whole("of the input, counted from 1", least=1)),
        }
    )
    faults = filled({"object": word("", "list"), "data": items(flaw)}, "why it failed")
    counts = {name: whole(least=0) for name in ("total", "completed", "failed")}
    return filled(
        {
            "id": text(),
            "object": word("", "batch"),
            "endpoint": text(),
            "errors": optional(faults),
            "input_file_id": text(),
            "completion_window": text(),
            "status": word("", *states),
            "output_file_id": optional(text("answers; once it has ended, where there are some")),
            "error_file_id": optional(text("refused and failed rows; likewise")),
            "created_at": _time(""),
            "expires_at": _time("when rows without an answer are given up"),
            **{
                f"{name}_at": optional(_time("when it came into that state"))
                for name in (*times, "cancelling", "cancelled")
            },
            "request_counts": filled(counts),
            "metadata": optional(mapping(text())),
        },
        "A batch, and how far it has come.",
    )


def _page(name: str) -> Schema:
    return filled(
        {
            "object": word("", "list"),
            "data": items(ref(name)),
            "first_id": optional(text()),
            "last_id": optional(text()),
            "has_more": flag(),
        }
    )


def _time(about: str) -> Schema:
    return whole(f"unix seconds; {about}" if about else "unix seconds", least=0)
