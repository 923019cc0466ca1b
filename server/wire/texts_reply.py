"""Bodies of answers to completions and chats, whole and as pieces of a stream of events."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spinf_serve.server.wire.json_text import encode
from spinf_serve.server.wire.texts import TextRequest

LAST_EVENT = b"data: [DONE]\n\n"
"""What ends every stream that went well."""


@dataclass(frozen=True, slots=True)
class TextHead:
    """What every body of an answer begins with.

    Attributes:
        request: what was asked.
        request_id: id of the answer.
        created: unix seconds of the arrival.
        fingerprint: of the engine.
    """

    request: TextRequest
    request_id: str
    created: int
    fingerprint: str

    def fields(self, stream: bool) -> dict[str, Any]:
        """The fields; the kind of object is another for pieces of a chat."""
        chat = self.request.chat
        kind = "chat.completion" if chat else "text_completion"
        return {
            "id": f"{'chatcmpl' if chat else 'cmpl'}-{self.request_id.removeprefix('scr_')}",
            "object": f"{kind}.chunk" if stream and chat else kind,
            "created": self.created,
            "model": self.request.model,
            "system_fingerprint": self.fingerprint,
        }


def whole_answer(head: TextHead, text: str, finish: str, usage: Mapping[str, Any]) -> bytes:
    """The body of an answer that is sent at once."""
    choice: dict[str, Any] = {"index": 0}
    if head.request.chat:
        choice["message"] = {"role": "assistant", "content": text, "refusal": None}
    else:
        choice["text"] = text
    choice |= {"logprobs": None, "finish_reason": finish}
    return encode({**head.fields(stream=False), "choices": [choice], "usage": dict(usage)})


def begin_event(head: TextHead) -> bytes:
    """The first event of a stream; completions begin with their text."""
    if not head.request.chat:
        return b""
    return _event(head, {"role": "assistant", "content": ""}, None)


def piece_event(head: TextHead, piece: str) -> bytes:
    """The event of a piece of text."""
    return _event(head, {"content": piece} if head.request.chat else piece, None)


def end_events(head: TextHead, finish: str, usage: Mapping[str, Any]) -> bytes:
    """The events behind the text."""
    ended = _event(head, {} if head.request.chat else "", finish)
    if head.request.tells_usage:
        ended += _sent({**head.fields(stream=True), "choices": [], "usage": dict(usage)})
    return ended + LAST_EVENT


def error_event(body: Mapping[str, Any]) -> bytes:
    """The event of a fault behind which nothing follows; clients raise it."""
    return _sent(body)


def text_usage(prompt_tokens: int, cached_tokens: int, written_tokens: int) -> dict[str, Any]:
    """What a text cost, in tokens."""
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": written_tokens,
        "total_tokens": prompt_tokens + written_tokens,
        "prompt_tokens_details": {"cached_tokens": cached_tokens},
    }


def _event(head: TextHead, said: dict[str, Any] | str, finish: str | None) -> bytes:
    choice: dict[str, Any] = {"index": 0}
    choice |= {"text": said} if isinstance(said, str) else {"delta": said}
    choice |= {"logprobs": None, "finish_reason": finish}
    body = {**head.fields(stream=True), "choices": [choice]}
    if head.request.tells_usage:
        body["usage"] = None
    return _sent(body)


def _sent(body: Mapping[str, Any]) -> bytes:
    return b"data: %s\n\n" % encode(dict(body))
