"""Every operation of the server, in the order in which the document shows them."""

from spinf_serve.server.openapi import batches, errors, examples, texts
from spinf_serve.server.openapi.forms import Schema, either, ref, text, whole, word
from spinf_serve.server.openapi.operation import (
    JSON,
    Operation,
    Reply,
    header_parameter,
    path_parameter,
    query_parameter,
)
from spinf_serve.server.problems import SYSTEM_ONE, SYSTEM_ONE_REQUEST_ID
from spinf_serve.server.urgency import DEADLINE_HEADER, PRIORITY_HEADER

TAGS = {
    "scoring": "Questions about contents, answered as probabilities.",
    batches.TAG: "Files of requests, answered in the background, for the OpenAI SDK. The server has "
    "to be started with `--batch-dir`. Docs: [batches.md](batches.md).",
    "server": "What is served, and how it is.",
    "operations": "For whoever runs the server. Docs: [operations.md](operations.md).",
}

_REFUSALS = (400, 401, 413, 415, 429, 500, 503, 504)
_ASKED = errors.may_end_in(*_REFUSALS)
_LOOKED_UP = errors.may_end_in(401, 503)
_URGENCY = (
    header_parameter(
        PRIORITY_HEADER,
        "`batch` waits for all that is `interactive`; without it `interactive`",
        word("", "interactive", "batch"),
    ),
    header_parameter(
        DEADLINE_HEADER,
        "milliseconds after which nobody wants the answer any more: it is 504 then",
        whole(least=1, most=10**9),
    ),
)


def operations() -> tuple[Operation, ...]:
    """All of them."""
    return (
        _score(),
        _chat(),
        _completions(),
        _systemone(),
        _decisions(),
        *batches.operations(),
        *_lists(),
        *_health(),
        _document(),
        *_operating(),
    )


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
        _ASKED,
        {JSON: ref("ScoreRequest")},
        _URGENCY,
        examples=examples.SCORE,
    )


def _chat() -> Operation:
    answer = either(ref("ChatAnswer"), ref("ChatTextAnswer"))
    return Operation(
        "post",
        "/v1/chat/completions",
        "chat",
        "scoring",
        "The same for OpenAI's clients, or the next turn of a chat",
        "With `scoring` (of the OpenAI SDK in `extra_body`) the body and answer of `/v1/score`, and "
        "`choices` in the answer, which is empty; `temperature` and the like have no effect then. "
        "Without it the model writes the next turn of the chat, where it can "
        "([extraction.md](extraction.md#completions-and-chats)).",
        {200: Reply("The answer.", {JSON: answer, texts.STREAM: texts.EVENT}, ("X-Spinf-Model",))},
        _ASKED,
        {JSON: either(ref("ChatRequest"), ref("ChatTextRequest"))},
        _URGENCY,
        examples=examples.CHAT,
    )


def _completions() -> Operation:
    reply = Reply(
        "The text.",
        {JSON: ref("CompletionAnswer"), texts.STREAM: texts.EVENT},
        ("X-Spinf-Model",),
    )
    return Operation(
        "post",
        "/v1/completions",
        "completions",
        "scoring",
        "Continue a text",
        "For OpenAI's clients. A text is written token by token, in what scoring leaves of "
        "passes: under scoring that fills them all it waits, up to its deadline.",
        {200: reply},
        _ASKED,
        {JSON: ref("CompletionRequest")},
        _URGENCY,
        examples=examples.COMPLETIONS,
    )


def _systemone() -> Operation:
    reply = Reply(
        "The answers.", {JSON: ref("SystemOneAnswer")}, ("X-Spinf-Model", SYSTEM_ONE_REQUEST_ID)
    )
    return Operation(
        "post",
        SYSTEM_ONE,
        "systemone",
        "scoring",
        "Yes or no, a choice, a level: in the form of TypeSafe's clients",
        "Questions are worded for the served model ([decisions.md](decisions.md)). Their ids and the "
        "order of labels move no probability. Bodies may be compressed with zstd or gzip, or come as "
        "a part named `request` of a `multipart/form-data` body.",
        {200: reply},
        errors.may_end_in(*_REFUSALS, 422, kind="SystemOne"),
        {JSON: ref("SystemOneRequest")},
        _URGENCY,
        examples=examples.SYSTEMONE,
    )


def _decisions() -> Operation:
    answer = either(ref("DecisionsAnswer"), ref("SystemOneAnswer"))
    body = either(ref("DecisionsRequest"), ref("SystemOneRequest"))
    return Operation(
        "post",
        "/v1/decisions",
        "decisions",
        "scoring",
        "The same in the form of OpenAI's SDK",
        "`decisions.create` of the SDK. A body with `state` is one of System One, and is answered in "
        "that form, errors too; none has both `input` and `state`.",
        {200: Reply("The answers.", {JSON: answer}, ("X-Spinf-Model",))},
        errors.may_end_in(*_REFUSALS, 422, kind="Decisions"),
        {JSON: body | {"not": {"required": ["input", "state"]}}},
        _URGENCY,
        examples=examples.DECISIONS,
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
            _LOOKED_UP,
            examples=examples.MODELS,
        ),
        Operation(
            "get",
            "/v1/models/{id}",
            "model",
            "server",
            "The served model by one of its names",
            "For `models.retrieve` of the OpenAI SDK. The id may hold a slash, written as it is.",
            {200: Reply("The model.", {JSON: ref("ModelEntry")})},
            _LOOKED_UP | {404: errors.NO_SUCH_MODEL},
            parameters=(path_parameter("id", "its id, or another name of it", least=1),),
            examples=examples.MODEL,
        ),
        Operation(
            "get",
            "/v1/packs",
            "packs",
            "server",
            "The served packs",
            "[Packs](packs.md) that a call may name, and files that could not be read.",
            {200: Reply("The packs.", {JSON: ref("Packs")})},
            _LOOKED_UP,
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
            _LOOKED_UP | {404: errors.NO_SUCH_PACK},
            parameters=(
                path_parameter("id", "`namespace/name`", least=1),
                query_parameter("version", "without it the first that is available", text()),
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
                503: Reply("It would, if this does not pass.", {JSON: ref("NotLive")}),
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
        errors.may_end_in(401),
    )


def _operating() -> tuple[Operation, ...]:
    drained = {JSON: ref("Draining")}
    trusted = "For trusted callers only."
    return (
        Operation(
            "get",
            "/metrics",
            "metrics",
            "operations",
            "Metrics for Prometheus",
            "In Prometheus' text format. Needs no token where the server was started with "
            "`--open-metrics`.",
            {200: Reply("All metrics.", {"text/plain": text()})},
            errors.may_end_in(401),
        ),
        Operation(
            "get",
            "/v0/info",
            "info",
            "operations",
            "What is served, and on what",
            trusted,
            {200: Reply("All of it.", {JSON: ref("Info")})},
            _LOOKED_UP,
        ),
        Operation(
            "post",
            "/v0/score",
            "raw",
            "operations",
            "Log-probabilities of texts behind prompts",
            "For measuring a model: nothing is put around a prompt, no floor is asked, nothing is "
            "rounded, and the decision log has nothing of it. An option has the log-probability that "
            "`/v1/score` gives it with `case_insensitive` false and an empty content; where the text "
            f"is split into content and template there, the last bits are others. {trusted}",
            {200: Reply("The log-probabilities.", {JSON: ref("RawAnswer")}, ("X-Spinf-Model",))},
            _ASKED,
            {JSON: ref("RawRequest")},
            _URGENCY,
            examples=examples.RAW,
        ),
        Operation(
            "post",
            "/v0/drain",
            "drain",
            "operations",
            "Turn new requests away",
            f"Those in work are answered, and the server goes on running. {trusted}",
            {200: Reply("It drains.", drained)},
            errors.may_end_in(401),
        ),
        Operation(
            "delete",
            "/v0/drain",
            "resume",
            "operations",
            "Take new requests again",
            trusted,
            {200: Reply("It does not drain.", drained)},
            errors.may_end_in(401),
        ),
    )
