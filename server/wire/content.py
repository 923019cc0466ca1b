"""Messages of an input to the one text that is read."""

from collections.abc import Callable, Mapping
from typing import Any

from spinf_serve.packs.errors import Refused
from spinf_serve.server.wire.fields import Fields, wrong_type
from spinf_serve.server.wire.media import check_audio, check_image, check_video

_BETWEEN_MESSAGES = "\n\n"
_MESSAGE = frozenset({"role", "content"})
# Kind of part -> check of its payload, which stands under the kind's name.
_MEDIA: Mapping[str, Callable[[Any, str], None]] = {
    "image_url": check_image,
    "input_audio": check_audio,
    "video": check_video,
}
_PART = frozenset({"type", "text", *_MEDIA})


def read_content(owner: Fields) -> str:
    """The text of an input's `messages`: joined with a blank line; parts with nothing between.

    Raises:
        Refused: `invalid_field`, `unsupported_content`, `invalid_media` or `media_not_supported`.
    """
    messages = owner.items("messages")
    if messages is None:
        raise owner.missing("messages")
    where = owner.at("messages")
    texts = [_message(value, f"{where}.{index}") for index, value in enumerate(messages)]
    return _BETWEEN_MESSAGES.join(texts)


def _message(value: Any, path: str) -> str:
    message = Fields(value, path, _MESSAGE)
    role = message.text("role")
    if role != "user":
        raise message.refused(
            "role",
            f"is {role[:32]!r}; only 'user' is read: the model is asked without a chat template, "
            "so put the text into a user message or a question's template",
        )
    if not message.has("content"):
        raise message.missing("content")
    content = message.get("content")
    if type(content) is str:
        return content
    if type(content) is not list:
        raise wrong_type(content, message.at("content"), "a text or a list of parts")
    where = message.at("content")
    return "".join([_part(part, f"{where}.{index}") for index, part in enumerate(content)])


def _part(value: Any, path: str) -> str:
    if type(value) is not dict:
        raise Refused("unsupported_content", f"{path} is not an object with a type", path)
    part = Fields(value, path, _PART)
    kind = part.get("type")
    if type(kind) is not str or (kind != "text" and kind not in _MEDIA):
        shown = "missing" if kind is None else ascii(kind)[:32]
        raise Refused(
            "unsupported_content",
            f"the type of {path} is {shown}; one of text, {', '.join(_MEDIA)} is needed",
            path,
        )
    if part.get(kind) is None:
        raise Refused("unsupported_content", f"{part.missing(kind).message}", path)
    if kind == "text":
        return part.text("text")
    _MEDIA[kind](part.get(kind), part.at(kind))
    raise Refused(
        "media_not_supported",
        f"{path} is of type {kind}; the served model reads text only: remove the part",
        part.at(kind),
    )
