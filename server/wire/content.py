"""Messages of an input to the one text that is read."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spinf_serve.packs.errors import Refused
from spinf_serve.server.calls import UsedPack
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
_MEDIUM = {"image_url": "image", "input_audio": "audio", "video": "video"}
_PART = frozenset({"type", "text", *_MEDIA})


def read_content(owner: Fields, packs: Sequence[UsedPack] = (), single: bool = False) -> str:
    """The text of an input's `messages`: joined with a blank line; parts with nothing between.

    Args:
        packs: the packs of the call, which say what kinds of content they read.
        single: whether the body gave `messages` and no `inputs`; a pack's refusal of a medium is
            then reported from there, as the contract says.

    Raises:
        Refused: `invalid_field`, `unsupported_content`, `invalid_media`, `media_not_supported` or
            `pack_media_not_supported`.
    """
    messages = owner.items("messages")
    if messages is None:
        raise owner.missing("messages")
    where = owner.at("messages")
    _check_packs(messages, packs, "messages" if single else where)
    texts = [_message(value, f"{where}.{index}") for index, value in enumerate(messages)]
    return _BETWEEN_MESSAGES.join(texts)


def _check_packs(messages: Sequence[Any], packs: Sequence[UsedPack], where: str) -> None:
    """Refuses kinds of content that a pack was not made for, before they are looked at closer."""
    for number, message in enumerate(messages if packs else ()):
        parts = message.get("content") if isinstance(message, dict) else None
        for index, part in enumerate(parts if isinstance(parts, list) else ()):
            kind = part.get("type") if isinstance(part, dict) else None
            medium = _MEDIUM.get(kind) if isinstance(kind, str) else None
            for used in packs:
                if medium is not None and medium not in used.pack.media:
                    raise Refused(
                        "pack_media_not_supported",
                        f"the pack {used.pack.id} reads {', '.join(used.pack.media)}; it was not "
                        f"made for {medium}: remove the part or ask another pack",
                        f"{where}.{number}.content.{index}.type",
                    )


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
