"""What /v1/score and its chat alias take: contents, questions, packs, limits of a call."""

from collections.abc import Mapping
from dataclasses import fields

from spinf_serve.engine.work import Limits
from spinf_serve.packs.ask import MAX_NAME_CHARS
from spinf_serve.packs.grid import MAX_COMBINATIONS, MAX_VALUE_CHARS
from spinf_serve.packs.manifest import PACK_ID, VERSION
from spinf_serve.packs.template import MAX_NAMES
from spinf_serve.server.openapi import slots
from spinf_serve.server.openapi.forms import (
    Schema,
    either,
    flag,
    items,
    mapping,
    null,
    number,
    optional,
    p,
    record,
    ref,
    text,
    whole,
    word,
)
from spinf_serve.server.wire.inputs import MAX_ID_CHARS
from spinf_serve.server.wire.media import MAX_FRAMES

TEMPLATE = r"^(?:[^{}]|\{\{|\}\}|\{[A-Za-z0-9_]+\})*\{\?\}$"
"""Templates of scored questions: text, doubled braces and placeholders, then the slot."""

_QUERIES = either(ref("Query"), ref("SearchedSlot"), ref("WrittenSlot"))
_IMAGE_URL = r"^data:image/(?:png|jpeg|jpg|webp|gif);base64,[A-Za-z0-9+/]+=*$"
_BASE64 = r"^[A-Za-z0-9+/]+=*$"
_DETAIL = ("low", "auto", "high")
_MODES = ("max", "per_category", "micro_layer")


def schemas(limits: Limits) -> dict[str, Schema]:
    """Component name -> schema. `limits` are those of the server."""
    return {
        "ScoreRequest": _request(chat=False),
        "ChatRequest": _request(chat=True),
        "Input": _input(),
        "Message": _message(),
        "ContentPart": _part(),
        "Image": _image(),
        "Scoring": _scoring(),
        "Query": _query(limits),
        **{name: _with_values(schema) for name, schema in slots.asked(_grid()).items()},
        "PackReference": _pack(),
        "Decision": _decision(),
        "CallLimits": _limits(),
        "Features": _features(),
    }


def model() -> Schema:
    """The field `model` of every scoring route."""
    return text("the served model's id or one of its aliases, whatever the case", least=1)


def _request(chat: bool) -> Schema:
    scoring = ref("Scoring")
    body: Mapping[str, Schema] = {
        "model": model()
        | {"description": f"{model()['description']}; without it the served model"},
        "messages": optional(items(ref("Message"), "one content; the same as an input of id `0`")),
        "inputs": optional(items(ref("Input"), "several contents", least=1)),
        "scoring": scoring if chat else optional(scoring),
        "endpoint": optional(
            text("the caller's label, echoed in the answer", least=1, most=MAX_ID_CHARS)
        ),
        "limits": optional(ref("CallLimits")),
        "features": optional(ref("Features")),
    }
    made = record(
        body,
        ("scoring",) if chat else (),
        "Contents, and questions about them. Exactly one of `messages` and `inputs` is given.",
    )
    return made | {
        "oneOf": [
            record({"messages": {"type": "array"}, "inputs": null()}, ("messages",)),
            record({"inputs": {"type": "array"}, "messages": null()}, ("inputs",)),
        ]
    }


def _input() -> Schema:
    value: Schema = {"type": ["string", "number", "boolean"]}
    return record(
        {
            "id": text("unique in the call", most=MAX_ID_CHARS),
            "messages": items(ref("Message"), "may be empty"),
            "query_ids": optional(
                items(
                    text(), "which of `scoring.queries` are asked, in which order; without it all"
                )
            ),
            "queries": optional(items(_QUERIES, "further questions about this content only")),
            "parameters": optional(
                mapping(value, "values of the parameters of the packs' contexts")
            ),
        },
        ("id", "messages"),
        "One content and what is asked about it.",
    )


def _message() -> Schema:
    content = either(
        text("the text"), items(ref("ContentPart"), "parts, with nothing between them")
    )
    return record(
        {"role": word("only `user` is read", "user"), "content": content},
        ("role", "content"),
        "A part of a content; messages are joined with a blank line.",
    )


def _part() -> Schema:
    clip = record(
        {
            "data": text("base64", pattern=_BASE64),
            "format": word("", "wav", "mp3", "flac", "ogg", "m4a", "webm"),
        },
        ("data", "format"),
    )
    frame = record(
        {"t": number("seconds; never less than the frame's before", least=0)}
        | {"image_url": ref("Image")},
        ("t", "image_url"),
    )
    video = record(
        {
            "frames": items(frame, least=1, most=MAX_FRAMES),
            "detail": optional(
                word("how closely frames are looked at; without it `low`", *_DETAIL)
            ),
        },
        ("frames",),
    )
    kinds = {"text": text(), "image_url": ref("Image"), "input_audio": clip, "video": video}
    return either(
        *(
            record({"type": word("", kind), kind: payload}, ("type", kind))
            for kind, payload in kinds.items()
        ),
        about="Text, or a medium where the served model reads it (`GET /v1/models` says).",
    )


def _image() -> Schema:
    return record(
        {
            "url": text("the picture itself as a data URL", pattern=_IMAGE_URL),
            "detail": optional(word("how closely it is looked at; without it `auto`", *_DETAIL)),
        },
        ("url",),
    )


def _scoring() -> Schema:
    return record(
        {
            "queries": optional(items(_QUERIES, "questions about every content")),
            "empty_floor": optional(
                flag("whether `floor_p` is wanted where a question does not say; without it true")
            ),
            "case_insensitive": optional(
                flag(
                    "whether other spellings of an option count for it; without it true, or as packs say"
                )
            ),
            "packs": optional(items(ref("PackReference"), "packs to evaluate")),
            "precision": optional(
                word("`full` gives unrounded numbers; without it 6 decimals", "full")
            ),
        },
        about="What is asked. A content needs at least one question, its own or a pack's.",
    )


def _query(limits: Limits) -> Schema:
    made = record(
        {
            "id": text("unique in the call", most=MAX_NAME_CHARS),
            "template": text(
                f"text, up to {MAX_NAMES} placeholders such as `{{name}}`, doubled braces for "
                "literal ones, and `{?}` where the answer goes",
                pattern=TEMPLATE,
            ),
            "options": items(
                text(f"up to {limits.max_option_tokens} tokens", least=1),
                "the answers, no two the same",
                least=1,
                most=limits.max_options,
            ),
            **_grid(),
            "empty_floor": optional(
                flag("whether `floor_p` is wanted; without it as `scoring` says")
            ),
            "group": optional(text("a label, echoed", most=MAX_NAME_CHARS)),
        },
        ("id", "template", "options"),
        "A question: a template that ends where the answer goes, and the options for it.",
    )
    return _with_values(made)


def _grid() -> dict[str, Schema]:
    """What fills the placeholders of a template."""
    listed = items(
        mapping(text(most=MAX_VALUE_CHARS)), "one filled template for each object", least=1
    )
    return {
        "combinations": optional(
            either(
                listed,
                word(f"every combination of `values`, up to {MAX_COMBINATIONS}", "all"),
                about="values of the placeholders; needed where the template has some",
            )
        ),
        "values": optional(
            mapping(
                items(text(most=MAX_VALUE_CHARS), least=1),
                "placeholder -> its values; with `all`, and only then",
            )
        ),
    }


def _with_values(made: Schema) -> Schema:
    """A query whose `values` are there with `all`, and only then."""
    return made | {
        "if": record({"combinations": {"const": "all"}}, ("combinations",)),
        "then": record({"values": {"type": "object"}}, ("values",)),
        "else": {"properties": {"values": null()}},
    }


def _pack() -> Schema:
    return record(
        {
            "id": text("each pack once a call", pattern=f"^{PACK_ID.pattern}$"),
            "version": optional(
                text("without it the first that is available", pattern=f"^{VERSION.pattern}$")
            ),
            "context": optional(text("how the content is presented; without it the pack's first")),
            "include_queries": optional(
                flag("whether the raw answers to its questions are shown too; without it not")
            ),
            "decision": optional(ref("Decision")),
        },
        ("id",),
        "A [pack](packs.md) to evaluate. Unknown fields are refused.",
        closed=True,
    )


def _decision() -> Schema:
    return record(
        {
            "mode": optional(word("one that the pack has; without it the pack's own", *_MODES)),
            "threshold": optional(
                number("cut of `max` (0 to 1) or `micro_layer`; without it the pack's")
            ),
            "thresholds": optional(
                mapping(
                    optional(p()), "category -> cut, null to report only; without it the pack's"
                )
            ),
            "critical": optional(
                items(
                    text(),
                    "categories that make a content unsafe when flagged; without it the pack's",
                )
            ),
        },
        about="How the call decides differently from the pack. Unknown fields are refused.",
        closed=True,
    )


def _limits() -> Schema:
    own = [field.name for field in fields(Limits)]
    return record(
        {name: optional(whole("at most the server's", least=1)) for name in own},
        about="Lower limits for this call; read from trusted callers only.",
    )


def _features() -> Schema:
    return record(
        {
            "media": optional(items(text())),
            "extraction": optional(flag()),
            "generation": optional(flag()),
        },
        about="Features to switch off for this call; read from trusted callers only.",
    )
