"""Ids that sort by the time they were made: a word, and a ULID."""

import base64
import secrets
import time

_CROCKFORD = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_RFC_4648 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_TO_CROCKFORD = bytes.maketrans(_RFC_4648, _CROCKFORD)
_LETTERS = 26
# 26 letters are 130 bits: two of zero before the 128, six behind them fill the last byte.
_BYTES, _FILL_BITS = 17, 6


def new_request_id() -> str:
    """An id of an answer: `scr_` and a ULID."""
    return new_id("scr_")


def new_id(prefix: str) -> str:
    """A prefix and 26 letters of Crockford base 32: 48 bits of milliseconds, 80 random bits."""
    value = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    letters = base64.b32encode((value << _FILL_BITS).to_bytes(_BYTES, "big"))
    return prefix + letters[:_LETTERS].translate(_TO_CROCKFORD).decode()
