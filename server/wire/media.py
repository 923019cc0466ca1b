"""Content parts that are media: what shape they must have. Decodes no picture and no sound."""

import base64
import binascii
import math
import re
from typing import Any

from spinf_serve.packs.errors import Refused
from spinf_serve.server.wire.fields import Fields, wrong_type

MAX_FRAMES = 1024
"""Most frames of one video."""

_DATA_URL = re.compile(r"data:image/(?:png|jpeg|jpg|webp|gif);base64,", re.IGNORECASE)
_DETAILS = ("low", "auto", "high")
_AUDIO_FORMATS = ("wav", "mp3", "flac", "ogg", "m4a", "webm")
_IMAGE_KEYS = frozenset({"url", "detail"})
_AUDIO_KEYS = frozenset({"data", "format"})
_VIDEO_KEYS = frozenset({"frames", "detail"})
_FRAME_KEYS = frozenset({"t", "image_url"})


def check_image(payload: Any, path: str) -> None:
    """Checks `image_url`. Raises `Refused`: `invalid_media` for its bytes, else `invalid_field`."""
    image = Fields(payload, path, _IMAGE_KEYS)
    url = image.text("url")
    where = image.at("url")
    head = _DATA_URL.match(url)
    if head is None:
        raise Refused(
            "invalid_media",
            f"{where} starts with {url[:32]!r}; send the picture itself as a data URL, "
            "data:image/png;base64,… (png, jpeg, webp or gif): addresses are not fetched",
            where,
        )
    _check_base64(url[head.end() :], where)
    _check_word(image, "detail", _DETAILS)


def check_audio(payload: Any, path: str) -> None:
    """Checks `input_audio`. Raises `Refused` likewise."""
    audio = Fields(payload, path, _AUDIO_KEYS)
    _check_base64(audio.text("data"), audio.at("data"))
    audio.text("format")
    _check_word(audio, "format", _AUDIO_FORMATS)


def check_video(payload: Any, path: str) -> None:
    """Checks `video`. Raises `Refused` likewise."""
    video = Fields(payload, path, _VIDEO_KEYS)
    frames = video.items("frames")
    if frames is None:
        raise video.missing("frames")
    if not 1 <= len(frames) <= MAX_FRAMES:
        raise video.refused("frames", f"has {len(frames)} frames; 1 to {MAX_FRAMES} are allowed")
    before = 0.0
    for index, entry in enumerate(frames):
        frame = Fields(entry, f"{video.at('frames')}.{index}", _FRAME_KEYS)
        before = _checked_time(frame, before)
        if frame.get("image_url") is None:
            raise frame.missing("image_url")
        check_image(frame.get("image_url"), frame.at("image_url"))
    _check_word(video, "detail", _DETAILS)


def _checked_time(frame: Fields, before: float) -> float:
    if not frame.has("t"):
        raise frame.missing("t")
    time: float = frame.get("t")
    if type(time) not in (int, float):
        raise wrong_type(time, frame.at("t"), "a number")
    # Compared, not converted: JSON allows whole numbers that no float can hold.
    if not before <= time < math.inf:
        raise frame.refused("t", f"is {time} s; times start at 0 and never go back ({before} s)")
    return time


def _check_base64(text: str, where: str) -> None:
    try:
        size = len(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError) as fault:
        raise Refused("invalid_media", f"{where} is not valid base64: {fault}", where) from None
    if not size:
        raise Refused("invalid_media", f"{where} holds no bytes", where)


def _check_word(fields: Fields, name: str, words: tuple[str, ...]) -> None:
    word = fields.optional_text(name)
    if word is not None and word not in words:
        raise fields.refused(name, f"is {word[:32]!r}; one of {', '.join(words)} is needed")
