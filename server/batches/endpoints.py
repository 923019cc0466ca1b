"""The routes that rows may ask, each with its wire format and the form of its errors."""

from collections.abc import Callable, Mapping

from spinf_serve.server.exchange import Wire
from spinf_serve.server.problems import SYSTEM_ONE, Envelope
from spinf_serve.server.wire.closed_wires import DecisionsWire, SystemOneWire
from spinf_serve.server.wire.score_wire import ScoreWire

ENDPOINTS: Mapping[str, Callable[[], Wire]] = {
    "/v1/score": ScoreWire,
    "/v1/chat/completions": lambda: ScoreWire(chat=True),
    SYSTEM_ONE: SystemOneWire,
    "/v1/decisions": DecisionsWire,
}
"""Path -> a wire for one request."""


def form_of(wire: Wire) -> Envelope:
    """The form of errors of a request that a wire has read, or tried to."""
    detail = isinstance(wire, SystemOneWire) or (
        isinstance(wire, DecisionsWire) and wire.speaks_systemone
    )
    return Envelope.DETAIL if detail else Envelope.ERROR
