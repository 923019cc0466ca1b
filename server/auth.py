"""Who is calling: bearer tokens, and what their holders may do. Knows headers, no routes."""

import hmac
from collections.abc import Iterable
from dataclasses import dataclass

from spinf_serve.packs.errors import Refused

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/livez"})
"""Paths that answer without a token; every other path, known or not, needs one when one is set."""

ANONYMOUS = "anonymous"
"""Name of callers without a key."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever sent a request, and their rights.

    Attributes:
        trusted: may lower limits per call and sees details of refusals.
        sees_counters: gets the `engine` block and the extra usage counters.
        name: of the key that was given, for logs and metrics; `ANONYMOUS` without one.
        address: of the connection, without its port; empty where it is not known, as behind a
            Unix socket.
    """

    trusted: bool
    sees_counters: bool
    name: str = ANONYMOUS
    address: str = ""

    @property
    def party(self) -> str:
        """Who shares the device with others: a key's holders, or an address where there is no key."""
        return f"address:{self.address}" if self.name == ANONYMOUS else f"key:{self.name}"


ANYBODY = Caller(trusted=False, sees_counters=False)


@dataclass(frozen=True, slots=True)
class Guard:
    """The tokens of a server.

    Attributes:
        token: what calls must carry; None leaves the server open to all.
        trusted_token: what trusted callers carry; None makes the holders of `token` trusted.
        debug: whether every caller sees the counters of a trusted one.
    """

    token: str | None
    trusted_token: str | None
    debug: bool = False

    def caller(self, authorization: Iterable[str]) -> Caller:
        """The caller behind the `Authorization` headers of a request.

        Raises:
            Refused: `invalid_token` when a token is needed and none of the accepted ones is given.
        """
        given = _bearer(authorization)
        # Both comparisons always run, and each takes the same time whatever was given.
        is_token = _same(given, self.token)
        is_trusted = _same(given, self.trusted_token)
        if self.token is not None and not (is_token or is_trusted):
            problem = "is not accepted" if given else "is missing"
            raise Refused(
                "invalid_token",
                f"the bearer token {problem}: send the header `Authorization: Bearer <token>`"
                " with the token this server was started with",
            )
        trusted = is_trusted or (is_token and self.trusted_token is None)
        name = "trusted_token" if is_trusted else "token" if is_token else ANONYMOUS
        return Caller(trusted=trusted, sees_counters=trusted or self.debug, name=name)


def _bearer(authorization: Iterable[str]) -> str | None:
    """The token of a single bearer header; two headers could mean two callers, so neither counts."""
    headers = list(authorization)
    if len(headers) != 1:
        return None
    scheme, _, token = headers[0].strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _same(given: str | None, wanted: str | None) -> bool:
    equal = hmac.compare_digest((given or "").encode(), (wanted or "").encode())
    return equal and bool(given) and wanted is not None
