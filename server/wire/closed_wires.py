"""The wire formats of /v1/systemone and /v1/decisions, as the service drives them."""

from dataclasses import dataclass

from spinf_serve.engine.api import Engine
from spinf_serve.packs.errors import Refused
from spinf_serve.server.auth import Caller
from spinf_serve.server.exchange import Asked, Scored
from spinf_serve.server.served_packs import ServedPacks
from spinf_serve.server.wire.decisions import read_decisions
from spinf_serve.server.wire.decisions_reply import decisions_reply
from spinf_serve.server.wire.json_text import Document
from spinf_serve.server.wire.systemone import read_systemone
from spinf_serve.server.wire.systemone_reply import systemone_reply


@dataclass(frozen=True, slots=True)
class SystemOneWire:
    """Reads and writes bodies of /v1/systemone.

    Attributes:
        parts: names of the parts that came with the body.
    """

    parts: frozenset[str] = frozenset()

    @property
    def route(self) -> str:
        """As in `Wire`."""
        return "systemone"

    def read(self, document: Document, engine: Engine, caller: Caller, packs: ServedPacks) -> Asked:
        """As in `Wire`."""
        request = read_systemone(document, engine, self.parts)
        return Asked(request.call, request.warnings, request)

    def write(self, scored: Scored, engine: Engine) -> bytes:
        """As in `Wire`."""
        return systemone_reply(scored, engine)


@dataclass(slots=True)
class DecisionsWire:
    """Reads and writes bodies of /v1/decisions; one for each request.

    Two services gave this route to two formats. A body with `state` is System One's and is answered
    in that form.

    Attributes:
        speaks_systemone: whether the body was one of those; False until it is read.
    """

    speaks_systemone: bool = False

    @property
    def route(self) -> str:
        """As in `Wire`."""
        return "decisions"

    def read(self, document: Document, engine: Engine, caller: Caller, packs: ServedPacks) -> Asked:
        """As in `Wire`."""
        value = document.value
        if isinstance(value, dict) and "state" in value:
            if "input" in value:
                raise Refused(
                    "invalid_field",
                    "the body has both input and state; send one of the two",
                    "input",
                )
            self.speaks_systemone = True
            request = read_systemone(document, engine, frozenset())
        else:
            request = read_decisions(document, engine)
        return Asked(request.call, request.warnings, request)

    def write(self, scored: Scored, engine: Engine) -> bytes:
        """As in `Wire`."""
        reply = systemone_reply if self.speaks_systemone else decisions_reply
        return reply(scored, engine)
