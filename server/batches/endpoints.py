"""The routes that rows may ask, each with its wire format and the form of its errors."""

from collections.abc import Callable, Mapping

from spinf_serve.server.exchange import Wire
from spinf_serve.server.features import Switches
from spinf_serve.server.problems import SYSTEM_ONE, Envelope
from spinf_serve.server.wire.closed_wires import DecisionsWire, SystemOneWire
from spinf_serve.server.wire.score_wire import ScoreWire

ENDPOINTS: Mapping[str, Callable[[Switches], Wire]] = {
    "/v1/score": lambda switches: ScoreWire(switches=switches),
    "/v1/chat/completions": lambda switches: ScoreWire(chat=True, switches=switches),
    SYSTEM_ONE: lambda _: SystemOneWire(),
    "/v1/decisions": lambda _: DecisionsWire(),
}
"""Path -> a wire for one request, on a server with these switches."""


def form_of(wire: Wire) -> Envelope:
    """The form of errors of a request that a wire has read, or tried to."""
    detail = isinstance(wire, SystemOneWire) or (
        isinstance(wire, DecisionsWire) and wire.speaks_systemone
    )
    return Envelope.DETAIL if detail else Envelope.ERROR
