"""The bytes that the texts of a vocabulary stand for."""

import re
from collections.abc import Container
from pathlib import Path
from typing import Final

from spinf_serve.packs.errors import Unusable

# Tokens that some vocabularies list as ordinary added texts although they steer the model. A
# content that spells one must not become it.
MARKERS: Final = frozenset(
    (
        "[multimodal]",
        "<start_of_image>",
        "<end_of_image>",
        "<think>",
        "</think>",
        "<tool_call>",
        "</tool_call>",
        "<tool_response>",
        "</tool_response>",
    )
)
_FALLBACK: Final = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _alphabet() -> dict[str, int]:
    """Byte-level vocabularies write a byte as one visible character.

    Visible characters of Latin-1 stand for themselves; the other bytes, in order, are written as
    the characters from U+0100 on.
    """
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in set(visible)]
    plain = {chr(byte): byte for byte in visible}
    return plain | {chr(0x100 + place): byte for place, byte in enumerate(hidden)}


# For str.translate: the written character to the Latin-1 character of its byte, and the other
# characters of Latin-1 to one that Latin-1 lacks.
_TO_LATIN: Final = dict.fromkeys(range(256), 0xFFFF) | {
    ord(char): byte for char, byte in _alphabet().items()
}


def byte_level_piece(text: str) -> bytes:
    """Bytes of an entry of a byte-level vocabulary.

    An entry with a character outside the byte alphabet can only be matched as it is written, so
    it stands for its own UTF-8 form.
    """
    try:
        return text.translate(_TO_LATIN).encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def is_fallback(text: str) -> bool:
    """Whether an entry of a byte-fallback vocabulary stands for one byte, such as `<0x0A>`."""
    return _FALLBACK.fullmatch(text) is not None


def fallback_byte(text: str) -> bytes:
    """The byte of an entry such as `<0x0A>`. Raises `Unusable` for another text."""
    found = _FALLBACK.fullmatch(text)
    if found is None:
        raise Unusable(f"the token {text!r} is listed as a byte but does not name one")
    return bytes.fromhex(found[1])


def require_all_bytes(texts: Container[str], where: Path) -> None:
    """Refuse a byte-fallback vocabulary that lacks a byte: it could not encode every text."""
    missing = [byte for byte in range(256) if f"<0x{byte:02X}>" not in texts]
    if missing:
        raise Unusable(f"{where}: the vocabulary lacks the byte token <0x{missing[0]:02X}>")
