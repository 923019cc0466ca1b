"""`input` of /v1/decisions, a text or a list of items, as the one text that the model reads."""

from collections.abc import Callable, Mapping
from typing import Any

from spinf_serve.packs.errors import Refused
from spinf_serve.server.wire.fields import Fields, wrong_type
from spinf_serve.server.wire.plain_texts import text_of

MAX_JSON_LEVELS = 32
"""Deepest nesting of the data of an `input_json` part."""

_BETWEEN = "\n\n"
_ITEM = frozenset(
    {"type", "role", "content", "phase", "call_id", "name", "arguments", "id"}
    | {"namespace", "status", "output", "input"}
)
_ROLES = ("user", "developer", "system", "assistant")
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_OUTPUTS = ("function_call_output", "custom_tool_call_output")


def read_input(value: Any, path: str) -> str:
    """The text of an input.

    A message of a user alone is its text. Of several items each is a paragraph that begins with who
    speaks, `user:`, or with what was called, and they stand in their order.

    Raises:
        Refused: `invalid_field`, `unsupported_content` or `media_not_supported`.
    """
    if type(value) is str:
        return value
    if type(value) is not list:
        raise wrong_type(value, path, "a text or a list of items")
    if not value:
        raise Refused("invalid_field", f"{path} is an empty list; give at least one item", path)
    read = [_item(item, f"{path}.{index}") for index, item in enumerate(value)]
    if len(read) == 1 and read[0][0] == "user":
        return read[0][1]
    return _BETWEEN.join(f"{speaker}: {text}" for speaker, text in read)


def read_parts(value: Any, path: str) -> str:
    """A text, or the texts of parts one under the other."""
    if type(value) is str:
        return value
    if type(value) is not list:
        raise wrong_type(value, path, "a text or a list of parts")
    return "\n".join(_part(part, f"{path}.{index}") for index, part in enumerate(value))


def _item(value: Any, path: str) -> tuple[str, str]:
    """Who speaks, and what."""
    item = Fields(value, path, _ITEM)
    kind = item.optional_text("type") or "message"
    if kind == "message":
        role = item.text("role")
        if role not in _ROLES:
            raise item.refused("role", f"is {role[:32]!r}; one of {', '.join(_ROLES)} is needed")
        if item.get("content") is None:
            raise item.missing("content")
        return role, read_parts(item.get("content"), item.at("content"))
    if kind in _CALLS:
        return f"call of {item.text('name')}", item.text(_CALLS[kind])
    if kind in _OUTPUTS:
        if item.get("output") is None:
            raise item.missing("output")
        return "result", read_parts(item.get("output"), item.at("output"))
    raise Refused(
        "unsupported_content",
        f"the type of {path} is {kind[:32]!r}; one of message, {', '.join((*_CALLS, *_OUTPUTS))} "
        "is needed",
        item.at("type"),
    )


def _text(part: Fields) -> str:
    return part.text("text")


def _refusal(part: Fields) -> str:
    return part.text("refusal")


def _json(part: Fields) -> str:
    data = part.get("data")
    where = part.at("data")
    if type(data) is not dict and not (type(data) is list and all(type(x) is dict for x in data)):
        raise wrong_type(data, where, "an object or a list of objects")
    if _levels(data) > MAX_JSON_LEVELS:
        raise Refused(
            "invalid_field",
            f"{where} is nested more than {MAX_JSON_LEVELS} levels deep; flatten it",
            where,
        )
    return text_of(data, where)


def _image(part: Fields) -> str:
    raise Refused(
        "media_not_supported",
        f"{part.path} is an image; the served model reads text only: remove the part",
        part.at("type"),
    )


_PARTS: Mapping[str, Callable[[Fields], str]] = {
    "input_text": _text,
    "output_text": _text,
    "refusal": _refusal,
    "input_json": _json,
    "input_image": _image,
}
_PART = frozenset({"type", "text", "refusal", "data", "image_url", "detail"}) | {
    "prompt_cache_breakpoint",
    "annotations",
    "logprobs",
}


def _part(value: Any, path: str) -> str:
    part = Fields(value, path, _PART)
    kind = part.text("type")
    reader = _PARTS.get(kind)
    if reader is None:
        raise Refused(
            "unsupported_content",
            f"the type of {path} is {kind[:32]!r}; one of {', '.join(_PARTS)} is needed",
            part.at("type"),
        )
    return reader(part)


def _levels(value: Any) -> int:
    """How deeply a value is nested; a scalar is level 0."""
    deepest = 0
    open_values = [(value, 1)]
    while open_values:
        item, level = open_values.pop()
        inner = item.values() if type(item) is dict else item if type(item) is list else None
        if inner is not None:
            deepest = max(deepest, level)
            open_values += [(each, level + 1) for each in inner]
    return deepest
