"""The wire format of /v1/score and its chat alias, as the service drives it."""

from dataclasses import dataclass, replace

from spinf_serve.engine.api import Engine
from spinf_serve.server.auth import Caller
from spinf_serve.server.exchange import Asked, Scored
from spinf_serve.server.features import ALL_ON, Switches
from spinf_serve.server.served_packs import ServedPacks
from spinf_serve.server.wire.json_text import Document
from spinf_serve.server.wire.spinf import read_request
from spinf_serve.server.wire.spinf_reply import reply


@dataclass(frozen=True, slots=True)
class ScoreWire:
    """Reads and writes bodies of /v1/score, or with `chat` of its alias.

    Attributes:
        chat: whether it is the alias.
        switches: what the server was started with.
    """

    chat: bool = False
    switches: Switches = ALL_ON

    @property
    def route(self) -> str:
        """As in `Wire`."""
        return "chat" if self.chat else "score"

    def read(self, document: Document, engine: Engine, caller: Caller, packs: ServedPacks) -> Asked:
        """As in `Wire`."""
        request = read_request(document, engine, caller, self.chat, packs, self.switches)
        return Asked(request.call, request.warnings, request)

    def write(self, scored: Scored, engine: Engine) -> bytes:
        """As in `Wire`."""
        return reply(
            # Long contents of the call may have been cut since it was read.
            replace(scored.asked.detail, call=scored.asked.call),
            scored.results,
            scored.usage,
            scored.warnings,
            engine=engine,
            request_id=scored.request_id,
            created=scored.created,
            timing=scored.timing,
            extras=scored.extras,
        )
