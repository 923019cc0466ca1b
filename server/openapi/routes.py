"""Every operation of the server, in the order in which the document shows them."""

from spinf_serve.server.openapi import errors, examples
from spinf_serve.server.openapi.forms import Schema, ref, text
from spinf_serve.server.openapi.operation import (
    JSON,
    Operation,
    Reply,
    path_parameter,
    query_parameter,
)

TAGS = {
    "scoring": "Questions about contents, answered as probabilities.",
    "server": "What is served, and how it is.",
}


def operations() -> tuple[Operation, ...]:
    """All of them."""
    return (_score(), _chat(), *_lists(), *_health(), _document())


def _scored(schema: str) -> dict[int, Reply]:
    reply = Reply("The answers.", {JSON: ref(schema)}, ("X-Spinf-Model",))
    return {200: reply}


def _score() -> Operation:
    return Operation(
        "post",
        "/v1/score",
        "score",
        "scoring",
        "Ask closed questions about contents",
        "Each content is read once, and every question about it is answered as probabilities of "
        "the options that the call gave. An answer depends on model, content and question alone: "
        "not on other questions, other contents, their order, or the load.",
        _scored("ScoreAnswer"),
        errors.ASKED,
        {JSON: ref("ScoreRequest")},
        examples=examples.SCORE,
    )


def _chat() -> Operation:
    return Operation(
        "post",
        "/v1/chat/completions",
        "chat",
        "scoring",
        "The same for OpenAI's clients",
        "The body and answer of `/v1/score` with `scoring` required and `choices` in the answer, "
        "which is empty. With the OpenAI SDK, `scoring` goes into `extra_body`. Nothing is "
        "written or sampled, so `temperature` and the like have no effect.",
        _scored("ChatAnswer"),
        errors.ASKED,
        {JSON: ref("ChatRequest")},
        examples=examples.CHAT,
    )


def _lists() -> tuple[Operation, ...]:
    return (
        Operation(
            "get",
            "/v1/models",
            "models",
            "server",
            "The served model",
            "One body that the clients of three interfaces can read.",
            {200: Reply("The model.", {JSON: ref("Models")})},
            errors.LOOKED_UP,
            examples=examples.MODELS,
        ),
        Operation(
            "get",
            "/v1/packs",
            "packs",
            "server",
            "The served packs",
            "[Packs](packs.md) that a call may name, and files that could not be read.",
            {200: Reply("The packs.", {JSON: ref("Packs")})},
            errors.LOOKED_UP,
            examples=examples.PACKS,
        ),
        Operation(
            "get",
            "/v1/packs/{id}",
            "pack",
            "server",
            "One pack's file",
            "The pack in the plain form, with the constants for the served model. The id holds a "
            "slash, which may be written as it is.",
            {200: Reply("The file.", {JSON: ref("PackFile")})},
            errors.LOOKED_UP | {404: errors.NO_SUCH_PACK},
            parameters=(
                path_parameter("id", "`namespace/name`", least=1),
                query_parameter("version", "the first that is available", text()),
            ),
        ),
    )


def _health() -> tuple[Operation, ...]:
    return (
        *_probe(
            "/healthz",
            "healthz",
            "Whether the process serves",
            {200: Reply("It does.", {JSON: ref("Alive")})},
        ),
        *_probe(
            "/readyz",
            "readyz",
            "Whether requests are answered now",
            {
                200: Reply("They are.", {JSON: ref("Ready")}),
                503: Reply("They are not; `reason` says why.", {JSON: ref("NotReady")}),
            },
        ),
        *_probe(
            "/livez",
            "livez",
            "Whether a restart would help",
            {
                200: Reply("It would not.", {JSON: ref("Live")}),
                503: Reply("It would, if this does not pass.", {JSON: ref("Live")}),
            },
        ),
    )


def _probe(
    path: str, name: str, summary: str, replies: dict[int, Reply]
) -> tuple[Operation, Operation]:
    about = "Needs no token. Also answers `HEAD`."
    bare = {status: Reply(reply.about, {}) for status, reply in replies.items()}
    return (
        Operation("get", path, name, "server", summary, about, replies, {}, is_open=True),
        Operation(
            "head",
            path,
            f"{name}_head",
            "server",
            f"{summary}, without a body",
            "Needs no token.",
            bare,
            {},
            is_open=True,
        ),
    )


def _document() -> Operation:
    schema: Schema = {"type": "object", "required": ["openapi", "info", "paths", "components"]}
    return Operation(
        "get",
        "/openapi.json",
        "openapi",
        "server",
        "This document",
        "With the limits of the server that answers.",
        {200: Reply("The document.", {JSON: schema})},
        errors.on(401),
    )
