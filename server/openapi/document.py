"""The OpenAPI 3.1 document: operations and schemas with the limits of a server put in."""

from typing import Any

from spinf_serve import __version__
from spinf_serve.engine.work import Limits
from spinf_serve.server.openapi import (
    answering,
    asking,
    batches,
    closed,
    errors,
    raw,
    telling,
    texts,
)
from spinf_serve.server.openapi.forms import Schema, text, whole
from spinf_serve.server.openapi.routes import TAGS, operations
from spinf_serve.server.problems import SYSTEM_ONE_REQUEST_ID

_ABOUT = """\
Reads a content once and answers hundreds of closed questions about it as probabilities.

- Bodies are JSON in UTF-8 of up to {max_body_bytes} bytes. Unknown fields are ignored, with a warning \
where they look like a misspelling; objects that say so refuse them.
- A server that was started with a token wants `Authorization: Bearer <token>` on every route but the \
health routes.
- Every answer has `X-Request-Id`. An error has a code and, where a field is at fault, its dotted path; \
429 and 503 have `Retry-After`.
- Besides what the schemas say, ids are unique within a call, options differ by more than case and \
outer spaces, combinations have exactly the placeholders of their template, and texts are within \
limits that count tokens: up to {max_content_tokens} for a content, {max_query_tokens} for a filled \
template, {max_option_tokens} for an option, {max_processed_tokens} for all that a call reads, with up \
to {max_prompts_per_input} filled templates for a content, of which {max_extractions_per_input} may have \
a slot for a free answer.
"""


def document(limits: Limits, max_body_bytes: int) -> dict[str, Any]:
    """The document of a server.

    Args:
        limits: the sizes that it accepts.
        max_body_bytes: its largest body.
    """
    numbers = {name: getattr(limits, name) for name in Limits.__dataclass_fields__}
    every = operations()
    paths: dict[str, Schema] = {}
    for operation in every:
        paths.setdefault(operation.path, {})[operation.method] = operation.written()
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "spinf-serve",
            "version": __version__,
            "description": _ABOUT.format(max_body_bytes=max_body_bytes, **numbers),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": about} for name, about in TAGS.items()],
        # Without a token on the server's side, any or none is accepted.
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Needed where the server was started with a token.",
                }
            },
            "headers": _headers(),
            "responses": errors.responses(
                name for operation in every for name in operation.problems.values()
            ),
            "schemas": {
                **asking.schemas(limits),
                **answering.schemas(),
                **closed.schemas(),
                **raw.schemas(limits),
                **texts.schemas(),
                **batches.schemas(),
                **telling.schemas(),
                **errors.schemas(),
            },
        },
    }


def _headers() -> dict[str, Schema]:
    return {
        "X-Request-Id": _header("id of the answer", text(least=1), required=True),
        "X-Spinf-Model": _header("id of the model that answered", text(least=1), required=True),
        SYSTEM_ONE_REQUEST_ID: _header("id of the answer", text(least=1), required=True),
        "Retry-After": _header("seconds to wait", whole(least=0), required=True),
        "WWW-Authenticate": _header("always `Bearer`", text(), required=True),
    }


def _header(about: str, schema: Schema, *, required: bool) -> Schema:
    return {"description": about, "required": required, "schema": schema}
