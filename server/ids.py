"""Ids that sort by the time they were made: a word, and a ULID."""

import secrets
import time

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LETTERS = 26


def new_request_id() -> str:
    """An id of an answer: `scr_` and a ULID."""
    return new_id("scr_")


def new_id(prefix: str) -> str:
    """A prefix and 26 letters of Crockford base 32: 48 bits of milliseconds, 80 random bits."""
    value = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    return prefix + "".join(_CROCKFORD[value >> 5 * n & 31] for n in reversed(range(_LETTERS)))
