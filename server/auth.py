"""Who is calling: bearer keys, and what their holders may do. Knows headers, no routes."""

import hmac
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from spinf_serve.packs.errors import Refused
from spinf_serve.server.keys import Key, KeyRing, digest_of

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/livez"})
"""Paths that answer without a key; every other path, known or not, needs one when one is set."""

METRICS_PATH = "/metrics"
"""A path that answers without a key where the setting `open_metrics` says so."""

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
    """The keys of a server.

    Attributes:
        token: what calls may carry; without it and without named keys the server is open to all.
        trusted_token: what trusted callers carry; None makes the holders of `token` trusted.
        debug: whether every caller sees the counters of a trusted one.
        keys: the named keys; None for none.
        open_metrics: whether the metrics need no key.
    """

    token: str | None
    trusted_token: str | None
    debug: bool = False
    keys: KeyRing | None = None
    open_metrics: bool = False

    @property
    def closed(self) -> bool:
        """Whether callers need a key."""
        return self.token is not None or (self.keys is not None and self.keys.wanted)

    def is_open(self, path: str) -> bool:
        """Whether a path answers without a key."""
        return path in OPEN_PATHS or (self.open_metrics and path == METRICS_PATH)

    def caller(self, authorization: Iterable[str]) -> Caller:
        """The caller behind the `Authorization` headers of a request.

        Raises:
            Refused: `invalid_token` when a key is needed and none of the accepted ones is given.
        """
        given = _bearer(authorization)
        key = self._found(given)
        if self.closed and key is None:
            problem = "is not accepted" if given else "is missing"
            raise Refused(
                "invalid_token",
                f"the bearer token {problem}: send the header `Authorization: Bearer <token>`"
                " with a token or key of this server",
            )
        if key is None:
            return replace(ANYBODY, sees_counters=self.debug)
        return Caller(key.trusted, sees_counters=key.trusted or self.debug, name=key.name)

    def _found(self, given: str | None) -> Key | None:
        # All keys are compared, and each in the same time whatever was given.
        digest = digest_of(given or "")
        found = None
        for key in self._accepted():
            if hmac.compare_digest(digest, key.digest) and given:
                found = key
        return found

    def _accepted(self) -> Iterator[Key]:
        # The trusted token last: where two are the same, its rights hold.
        if self.keys is not None:
            yield from self.keys.current
        if self.token is not None:
            yield Key("token", digest_of(self.token), trusted=self.trusted_token is None)
        if self.trusted_token is not None:
            yield Key("trusted_token", digest_of(self.trusted_token), trusted=True)


def _bearer(authorization: Iterable[str]) -> str | None:
    """The token of a single bearer header; two headers could mean two callers, so neither counts."""
    headers = list(authorization)
    if len(headers) != 1:
        return None
    scheme, _, token = headers[0].strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None
