"""Bodies of /v1/completions and of chats without `scoring`: from JSON to what the model is to write.

A field that would change the text and is not served is refused by name, never ignored.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spinf_serve.engine.api import Engine
from spinf_serve.engine.work import Generate
from spinf_serve.packs.ask import check_unicode
from spinf_serve.packs.errors import Refused, kind_of
from spinf_serve.packs.question import Sampling
from spinf_serve.server.chat_template import Turn, chat_tokens, known_roles
from spinf_serve.server.wire.fields import Fields, wrong_type
from spinf_serve.server.wire.json_text import Document
from spinf_serve.server.wire.model_field import read_model
from spinf_serve.server.wire.slots import CANDIDATES, MOST_TEMPERATURE, above_zero, number, whole

MOST_STOPS = 4
MOST_STOP_CHARS = 256
MOST_SEED = 2**63 - 1
COMPLETION_TOKENS = 16
"""Longest completion where the body does not say, in tokens; a chat gets as many as are allowed."""

_BOTH = frozenset(
    {"model", "max_tokens", "temperature", "top_p", "stop", "seed", "stream", "stream_options"}
)
_COMPLETION = _BOTH | {"prompt"}
_CHAT = _BOTH | {"messages", "max_completion_tokens"}
_LABELS = frozenset({"user", "metadata", "safety_identifier", "prompt_cache_key", "endpoint"})
"""Fields that name something for the caller's own use: any value is taken, none has an effect."""

_IDLE: Mapping[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "logprobs": (False,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "logit_bias": ({},),
    "suffix": ("",),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "store": (False,),
    "service_tier": ("auto", "default"),
    "top_logprobs": (),
    "parallel_tool_calls": (True, False),
    "inputs": (),
    "scoring": (),
}
"""Fields that are not served -> the values with which they ask for nothing."""

_MESSAGE = frozenset({"role", "content"})
_PART = frozenset({"type", "text"})
_STREAM_OPTIONS = frozenset({"include_usage"})


@dataclass(frozen=True, slots=True)
class TextRequest:
    """What a model is to write, and how it is wanted.

    Attributes:
        wanted: the prompt, in tokens or as text, and how it goes on.
        model: the model as the caller wrote it; the served id when left out.
        chat: whether it is the next turn of a chat.
        stream: whether pieces are sent as they come.
        tells_usage: whether the last piece of a stream tells what it cost.
    """

    wanted: Generate
    model: str
    chat: bool
    stream: bool
    tells_usage: bool


def read_text_request(
    document: Document, engine: Engine, chat: bool, most_tokens: int
) -> TextRequest:
    """Reads a body.

    Args:
        chat: whether it is one of a chat.
        most_tokens: that one text may have.

    Raises:
        Refused: with the code and the dotted path of the field at fault.
    """
    body = Fields(document.value, "", _CHAT if chat else _COMPLETION)
    _refuse_unserved(body)
    model = read_model(body, engine) if body.has("model") else engine.served.id
    stream = body.flag("stream", False)
    wanted = Generate(
        prompt=_chat(body, engine) if chat else _prompt(body),
        max_tokens=_max_tokens(body, chat, most_tokens),
        sampling=_sampling(body),
        stop=_stops(body),
    )
    return TextRequest(wanted, model, chat, stream, _tells_usage(body, stream))


def _refuse_unserved(body: Fields) -> None:
    for name in body.unknown:
        value = body.get(name)
        if value is None or name in _LABELS:
            continue
        shown = name[:40]
        idle = _IDLE.get(name)
        if idle is None:
            near = dict(body.misspelt()).get(name)
            hint = f"; did you mean `{near}`?" if near else ""
            raise body.refused(shown, f"is not served when text is written; remove it{hint}")
        if any(_is_same(value, one) for one in idle):
            continue
        allowed = " or ".join(map(_shown, idle))
        raise body.refused(
            shown,
            "is not served when text is written; "
            + (f"only {allowed} is taken: remove it" if allowed else "remove it"),
        )


def _is_same(value: Any, idle: Any) -> bool:
    """Whether two JSON values are one: 0 is 0.0, but in Python it is False too."""
    return value == idle and (type(value) is bool) == (type(idle) is bool)


def _shown(value: Any) -> str:
    return repr(value) if type(value) is not bool else str(value).lower()


def _prompt(body: Fields) -> str:
    value = body.get("prompt")
    if value is None:
        raise body.missing("prompt")
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        value = value[0]
    if type(value) is not str:
        raise body.refused(
            "prompt",
            f"is {kind_of(value)}; one text is needed: several prompts go into several requests, "
            "and tokens are not read",
        )
    check_unicode(value, "prompt")
    return value


def _chat(body: Fields, engine: Engine) -> tuple[int, ...]:
    messages = body.items("messages")
    if messages is None:
        raise body.missing("messages")
    if not messages:
        raise body.refused("messages", "is an empty list; give at least one")
    turns = [_turn(value, f"messages.{index}") for index, value in enumerate(messages)]
    return chat_tokens(engine, turns)


def _turn(value: Any, path: str) -> Turn:
    message = Fields(value, path, _MESSAGE)
    for name in message.unknown:
        if message.get(name) not in (None, [], ""):
            raise message.refused(name[:40], "is not served; a message has a role and a content")
    role = message.text("role")
    roles = known_roles()
    if role not in roles:
        raise message.refused("role", f"is {role[:32]!r}; one of {', '.join(roles)} is needed")
    content = message.get("content")
    where = message.at("content")
    if content is None:
        raise message.missing("content")
    if type(content) is list:
        content = "".join([_part(part, f"{where}.{n}") for n, part in enumerate(content)])
    if type(content) is not str:
        raise wrong_type(content, where, "a text or a list of parts")
    check_unicode(content, where)
    return Turn(roles[role], content)


def _part(value: Any, path: str) -> str:
    part = Fields(value, path, _PART)
    kind = part.get("type")
    if kind != "text":
        raise Refused(
            "unsupported_content",
            f"{path} is of type {ascii(kind)[:32]}; chats are made of text only",
            path,
        )
    return part.text("text")


def _max_tokens(body: Fields, chat: bool, most: int) -> int:
    if chat and body.get("max_completion_tokens") is not None:
        if body.get("max_tokens") not in (None, body.get("max_completion_tokens")):
            raise body.refused("max_tokens", "contradicts max_completion_tokens; give one of them")
        return whole(body, "max_completion_tokens", most, 1, most)
    return whole(body, "max_tokens", most if chat else min(COMPLETION_TOKENS, most), 1, most)


def _sampling(body: Fields) -> Sampling:
    temperature = number(body, "temperature", 1.0, 0.0, MOST_TEMPERATURE)
    top_p = above_zero(body, "top_p", 1.0, 1.0)
    seed = whole(body, "seed", secrets.randbits(31), 0, MOST_SEED)
    return Sampling(temperature, CANDIDATES if temperature > 0 else 1, top_p, seed)


def _stops(body: Fields) -> tuple[str, ...]:
    value = body.get("stop")
    if value is None:
        return ()
    texts = [value] if type(value) is str else value
    if type(texts) is not list:
        raise wrong_type(value, "stop", "a text or a list of texts")
    if len(texts) > MOST_STOPS:
        raise body.refused("stop", f"has {len(texts)} texts; at most {MOST_STOPS} are allowed")
    for index, text in enumerate(texts):
        where = "stop" if texts is not value else f"stop.{index}"
        if type(text) is not str:
            raise wrong_type(text, where, "a text")
        if not 1 <= len(text) <= MOST_STOP_CHARS:
            raise Refused(
                "invalid_field",
                f"{where} has {len(text)} characters; 1 to {MOST_STOP_CHARS} are allowed",
                where,
            )
        check_unicode(text, where)
    return tuple(texts)


def _tells_usage(body: Fields, stream: bool) -> bool:
    given = body.get("stream_options")
    if given is None:
        return False
    if not stream:
        raise body.refused("stream_options", "is for streams; set stream to true, or remove it")
    options = Fields(given, "stream_options", _STREAM_OPTIONS)
    for name in options.unknown:
        if options.get(name) not in (None, False):
            raise options.refused(name[:40], "is not served; remove it")
    return options.flag("include_usage", False)
