"""What /v1/completions and chats without `scoring` take and answer."""

from spinf_serve.server.openapi.forms import (
    Schema,
    either,
    filled,
    flag,
    items,
    null,
    number,
    optional,
    record,
    ref,
    text,
    whole,
    word,
)
from spinf_serve.server.wire.slots import MOST_TEMPERATURE
from spinf_serve.server.wire.texts import MOST_SEED, MOST_STOP_CHARS, MOST_STOPS

STREAM = "text/event-stream"
"""Media type of an answer that comes in pieces."""

EVENT: Schema = {
    "type": "object",
    "properties": {"event": {"type": "string"}, "data": {"type": "string"}},
    "required": ["data"],
    "description": "One event of the stream; `data` is JSON, or `[DONE]` at the end.",
}
"""An answer's piece, as the media type has it."""

_UNSERVED = "Fields of OpenAI's that would change the text and are not here are refused by name."


def schemas() -> dict[str, Schema]:
    """Component name -> schema."""
    return {
        "CompletionRequest": _completion(),
        "ChatTextRequest": _chat(),
        "ChatMessage": _message(),
        "CompletionAnswer": _answer("text_completion", {"text": text()}),
        "ChatTextAnswer": _answer("chat.completion", {"message": _said()}),
        "TextUsage": _usage(),
    }


def _shared() -> dict[str, Schema]:
    stop = text(least=1, most=MOST_STOP_CHARS)
    return {
        "model": text("the served model's id or an alias; without it the served model", least=1),
        "max_tokens": optional(whole("up to the server's `max_completion_tokens`", least=1)),
        "temperature": optional(
            number("without it 1; 0 takes the likeliest token", least=0, most=MOST_TEMPERATURE)
        ),
        "top_p": optional(
            number("of the likeliest tokens those with this share; without it 1", most=1)
            | {"exclusiveMinimum": 0}
        ),
        "stop": optional(
            either(stop, items(stop, most=MOST_STOPS), about="texts before which it ends")
        ),
        "seed": optional(whole("the same gives the same; without it any", least=0, most=MOST_SEED)),
        "stream": optional(flag("whether pieces are sent as server-sent events")),
        "stream_options": optional(
            record({"include_usage": optional(flag())}, about="only with `stream`")
        ),
    }


def _completion() -> Schema:
    one = items(text(), least=1, most=1)
    return record(
        {"prompt": either(text(), one, about="a text, read literally"), **_shared()},
        ("prompt",),
        f"A text that is to be continued. {_UNSERVED}",
    )


def _chat() -> Schema:
    return record(
        {
            "messages": items(ref("ChatMessage"), least=1),
            "max_completion_tokens": optional(whole("another name of `max_tokens`", least=1)),
            "scoring": null(),
            **_shared(),
        },
        ("messages",),
        f"A chat that is to be answered, in the model's own template. {_UNSERVED}",
    )


def _message() -> Schema:
    part = record({"type": word("", "text"), "text": text()}, ("type", "text"))
    return record(
        {
            "role": word(
                "`developer` is the same as `system`", "system", "developer", "user", "assistant"
            ),
            "content": either(text(), items(part), about="never read as control tokens"),
        },
        ("role", "content"),
    )


def _said() -> Schema:
    return filled(
        {"role": word("", "assistant"), "content": text(), "refusal": null()},
    )


def _answer(kind: str, said: dict[str, Schema]) -> Schema:
    choice = filled(
        {
            "index": whole("always 0", least=0, most=0),
            **said,
            "logprobs": null(),
            "finish_reason": word("what ended it: the model or a stop text, or its length", "stop",
                                  "length"),
        }
    )  # fmt: skip
    return filled(
        {
            "id": text(),
            "object": word("", kind),
            "created": whole("unix seconds"),
            "model": text("as the caller wrote it"),
            "system_fingerprint": text("changes when texts may change"),
            "choices": items(choice, least=1, most=1),
            "usage": ref("TextUsage"),
        }
    )


def _usage() -> Schema:
    return filled(
        {
            "prompt_tokens": whole(least=0),
            "completion_tokens": whole(least=0),
            "total_tokens": whole(least=0),
            "prompt_tokens_details": filled({"cached_tokens": whole(least=0)}),
        },
        "In tokens.",
    )
