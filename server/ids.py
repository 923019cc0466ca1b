"""Request ids: `scr_` and a ULID, so that ids sort by the time they were made."""

import secrets
import time

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LETTERS = 26


def new_request_id() -> str:
    """`scr_` and 26 letters of Crockford base 32: 48 bits of milliseconds, 80 random bits."""
    value = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    return "scr_" + "".join(_CROCKFORD[value >> 5 * n & 31] for n in reversed(range(_LETTERS)))
