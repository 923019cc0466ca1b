"""Messages and parts: text, and media that are refused with the path of what is wrong."""

import base64

import pytest

from spinf_serve.packs.errors import Refused
from spinf_serve.server.wire.content import read_content
from spinf_serve.server.wire.fields import Fields

PNG = "data:image/png;base64," + base64.b64encode(b"png").decode()
FRAME = {"t": 0, "image_url": {"url": PNG}}
AT = "inputs.0.messages.0.content.0"


def read(messages):
    return read_content(Fields({"messages": messages}, "inputs.0", frozenset({"messages"})))


def refusal(part):
    with pytest.raises(Refused) as caught:
        read([{"role": "user", "content": [part]}])
    return caught.value.code, caught.value.param


@pytest.mark.parametrize(
    ("contents", "text"),
    [
        ([], ""),
        ([""], ""),
        (["", ""], "\n\n"),
        (["a", "b"], "a\n\nb"),
        ([[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "c"], "ab\n\nc"),
        ([[]], ""),
        (["  a\n"], "  a\n"),
    ],
)
def test_messages_become_one_text(contents, text):
    assert read([{"role": "user", "content": content} for content in contents]) == text


@pytest.mark.parametrize(
    ("part", "code", "below"),
    [
        ("text", "unsupported_content", ""),
        ({}, "unsupported_content", ""),
        ({"type": ["text"]}, "unsupported_content", ""),
        ({"type": "text"}, "unsupported_content", ""),
        ({"type": "text", "text": None}, "unsupported_content", ""),
        ({"type": "text", "text": 1}, "invalid_field", ".text"),
        ({"type": "file", "file": {}}, "unsupported_content", ""),
        ({"type": "image_url", "image_url": PNG}, "invalid_field", ".image_url"),
        ({"type": "image_url", "image_url": {}}, "invalid_field", ".image_url.url"),
        ({"type": "image_url", "image_url": {"url": "http://x/a.png"}}, "invalid_media", ".image_url.url"),
        ({"type": "image_url", "image_url": {"url": "data:text/plain;base64,AA=="}}, "invalid_media", ".image_url.url"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}, "invalid_media", ".image_url.url"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,@@"}}, "invalid_media", ".image_url.url"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,ü"}}, "invalid_media", ".image_url.url"),
        ({"type": "image_url", "image_url": {"url": PNG, "detail": "max"}}, "invalid_field", ".image_url.detail"),
        ({"type": "image_url", "image_url": {"url": PNG, "detail": "low"}}, "media_not_supported", ".image_url"),
        ({"type": "input_audio", "input_audio": {"data": "AAA", "format": "wav"}}, "invalid_media", ".input_audio.data"),
        ({"type": "input_audio", "input_audio": {"data": "AAAA"}}, "invalid_field", ".input_audio.format"),
        ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "aiff"}}, "invalid_field", ".input_audio.format"),
        ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}, "media_not_supported", ".input_audio"),
        ({"type": "video", "video": {}}, "invalid_field", ".video.frames"),
        ({"type": "video", "video": {"frames": []}}, "invalid_field", ".video.frames"),
        ({"type": "video", "video": {"frames": [FRAME] * 1025}}, "invalid_field", ".video.frames"),
        ({"type": "video", "video": {"frames": [FRAME | {"t": "0"}]}}, "invalid_field", ".video.frames.0.t"),
        ({"type": "video", "video": {"frames": [FRAME | {"t": -1}]}}, "invalid_field", ".video.frames.0.t"),
        ({"type": "video", "video": {"frames": [FRAME | {"t": True}]}}, "invalid_field", ".video.frames.0.t"),
        ({"type": "video", "video": {"frames": [FRAME | {"t": float("inf")}]}}, "invalid_field", ".video.frames.0.t"),
        ({"type": "video", "video": {"frames": [FRAME | {"t": 2}, FRAME | {"t": 1}]}}, "invalid_field", ".video.frames.1.t"),
        ({"type": "video", "video": {"frames": [{"image_url": {"url": PNG}}]}}, "invalid_field", ".video.frames.0.t"),
        ({"type": "video", "video": {"frames": [{"t": 0}]}}, "invalid_field", ".video.frames.0.image_url"),
        ({"type": "video", "video": {"frames": [{"t": 0, "image_url": {"url": "x"}}]}}, "invalid_media", ".video.frames.0.image_url.url"),
        ({"type": "video", "video": {"frames": [FRAME | {"t": 10**400}]}}, "media_not_supported", ".video"),
    ],
)  # fmt: skip
def test_a_part_that_is_not_read_is_refused_with_its_path(part, code, below):
    assert refusal(part) == (code, AT + below)


@pytest.mark.parametrize("kind", ["png", "jpeg", "JPG", "webp", "gif"])
def test_all_documented_kinds_of_pictures_get_as_far_as_the_model(kind):
    url = PNG.replace("png", kind, 1)
    assert refusal({"type": "image_url", "image_url": {"url": url}})[0] == "media_not_supported"


def test_a_role_that_is_not_read_says_what_to_do():
    with pytest.raises(Refused) as caught:
        read([{"role": "assistant", "content": "x"}])
    assert caught.value.param == "inputs.0.messages.0.role"
    assert "user message" in caught.value.message
