"""Which pages of other origins may call from a browser. Knows no routes."""

import re
from collections.abc import Sequence
from typing import Any

from spinf_serve.packs.errors import Unusable

# What browsers send: scheme, host, and a port that is not the scheme's own; never a path.
_ORIGIN = re.compile(r"https?://([a-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")
_METHODS = ("GET", "POST", "DELETE")
_SENT = (
    "Authorization",
    "Content-Type",
    "X-Request-Deadline-Ms",
    "X-Request-Id",
    "X-Spinf-Priority",
)
_SEEN = ("Retry-After", "X-Request-Id", "X-Spinf-Model")
_REMEMBERED_SECONDS = 600


def cross_origin(origins: Sequence[str]) -> dict[str, Any]:
    """What starlette's CORS middleware is to allow.

    Cookies are never allowed: keys travel in a header that a page must set itself.

    Args:
        origins: such as `https://example.org`, or `*` for every page.

    Raises:
        Unusable: one of them is neither.
    """
    for origin in origins:
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            raise Unusable(
                f"--cors-origin {origin}: an origin is a scheme and a host in small letters, such "
                "as https://example.org or http://localhost:3000, without a path; * is every page"
            )
    return {
        "allow_origins": list(origins),
        "allow_methods": list(_METHODS),
        "allow_headers": list(_SENT),
        "expose_headers": list(_SEEN),
        "max_age": _REMEMBERED_SECONDS,
    }
