"""What a route's wire format gives the service, and what observers of the service see.

Knows no route, no format and no engine thread; `service` drives it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from spinf_serve.engine.api import Engine
from spinf_serve.engine.work import Result
from spinf_serve.packs.errors import SpinfError
from spinf_serve.server.auth import Caller
from spinf_serve.server.call_warnings import Warning
from spinf_serve.server.calls import Call
from spinf_serve.server.served_packs import ServedPacks
from spinf_serve.server.usage import Usage
from spinf_serve.server.wire.json_text import Document


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, read and checked but for its token counts.

    Attributes:
        call: what it asks for.
        warnings: what the caller should know before anything was scored.
        detail: what the format needs to write the answer; the format's own.
    """

    call: Call
    warnings: tuple[Warning, ...]
    detail: Any


@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds of a call.

    Attributes:
        wall: from the arrival of the body to the making of the answer.
        queue: waiting for the engine to take it up.
        compile: reading, checking and tokenising.
        score: from the first pass it could share to the last one in which contents or questions of
            it were read.
        busy: of that and of `decode`, how long the model ran, for this call or another.
        decode: from then until its slots were filled; None without slots.
    """

    wall: float
    queue: float
    compile: float
    score: float
    busy: float
    decode: float | None = None


@dataclass(frozen=True, slots=True)
class Scored:
    """A request that was answered: all that its format needs to write the body.

    Attributes:
        asked: the request.
        results: one per input of its call, in order.
        usage: what it cost.
        warnings: those of the request, then those of the results.
        request_id: id of the answer.
        created: unix seconds of the arrival.
        timing: how long each stage took.
        forwards: passes meanwhile, for this call or another.
        extras: whether the caller gets the extra counters of a trusted one.
    """

    asked: Asked
    results: tuple[Result, ...]
    usage: Usage
    warnings: tuple[Warning, ...]
    request_id: str
    created: int
    timing: Timing
    extras: bool
    forwards: int = 0


class Wire(Protocol):
    """A wire format of one route."""

    @property
    def route(self) -> str:
        """Short name of the route in logs and metrics, such as `score`."""
        ...

    def read(self, document: Document, engine: Engine, caller: Caller, packs: ServedPacks) -> Asked:
        """The request in a decoded body. Raises `Refused` with the dotted path of the field."""
        ...

    def write(self, scored: Scored, engine: Engine) -> bytes:
        """The body of the answer."""
        ...


@dataclass(frozen=True, slots=True)
class Written:
    """A text that the model wrote.

    Attributes:
        prompt_tokens, generated_tokens: tokens of its prompt and its own.
        queue_seconds: until the engine took it up.
        first_seconds: from the arrival of the body to the first piece of it, or to the end of one
            that is empty.
        decode_seconds: from then to its end.
    """

    prompt_tokens: int
    generated_tokens: int
    queue_seconds: float
    first_seconds: float
    decode_seconds: float


@dataclass(frozen=True, slots=True)
class Ended:
    """A request that came to its end in the service, well or not.

    Attributes:
        request_id: id of the answer.
        created: unix seconds of the arrival.
        route: as in `Wire.route`.
        caller: whose it was.
        scored: the answered request; None when it failed, or asked for a text.
        error: what it failed with; None when it was answered, or when the client left.
        asked: the request, as soon as it was read; None when it never was, or asked for a text.
        written: the text that was asked for, when it came to its end.
    """

    request_id: str
    created: int
    route: str
    caller: Caller
    scored: Scored | None
    error: SpinfError | None
    asked: Asked | None
    written: Written | None = None


class Observer(Protocol):
    """Someone who is told of every request that ends; neither waits nor fails a request."""

    def ended(self, request: Ended) -> None:
        """Called on the event loop's thread, once a request, before its answer is sent."""
        ...


def tell(observers: Sequence[Observer], request: Ended) -> None:
    """Tells every observer; what one of them raises is the border's to log."""
    for observer in observers:
        observer.ended(request)
