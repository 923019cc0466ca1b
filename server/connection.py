"""A client's connection: uvicorn's, with bounds on heads, and on clients that hold one and do nothing.

Knows bytes and times of HTTP/1.1, no routes and no bodies. What is refused here never was a request:
it is answered without a code, and counted by a reason.
"""

import asyncio
import json
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 64 * 1024
MAX_HEADERS = 100

_LOOK_SECONDS = 0.5
# How long a client that was refused may go on sending: closed at once, it might not see why.
_LINGER_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a connection may do nothing, in seconds.

    Attributes:
        idle: before the first request, and between two.
        head: from the first byte of a request to the end of its head.
        rest: from an answer to the end of the body that it did not wait for.
        answer: between two reads of a client whose answer waits for it.
    """

    idle: float
    head: float
    rest: float
    answer: float


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why a connection is ended: a word for the metrics; a status and a line, where one is sent."""

    reason: str
    status: str = ""
    detail: str = ""


_NOT_HTTP = _Refusal("not_http", "400 Bad Request", "this is no request of HTTP/1.1")
_HEAD_TOO_LARGE = _Refusal(
    "head_too_large",
    "431 Request Header Fields Too Large",
    f"the head of the request has more than {MAX_HEADERS} headers or {MAX_HEAD_BYTES} bytes",
)
_HEAD_TOO_SLOW = _Refusal(
    "head_too_slow", "408 Request Timeout", "the head of the request did not come to its end"
)
_IDLE = _Refusal("idle")
_BODY_ABANDONED = _Refusal("body_abandoned")
_ANSWER_NOT_READ = _Refusal("answer_not_read")

REASONS = tuple(
    one.reason
    for one in (
        _NOT_HTTP,
        _HEAD_TOO_LARGE,
        _HEAD_TOO_SLOW,
        _IDLE,
        _BODY_ABANDONED,
        _ANSWER_NOT_READ,
    )
)
"""The words that ended connections are counted by."""


class Connections:
    """The open connections of a server. Belongs to the event loop's thread.

    Attributes:
        ended: how many the server ended, by `REASONS`; may be read from any thread.
    """

    def __init__(self, patience: Patience) -> None:
        self.patience = patience
        self.ended: Counter[str] = Counter(dict.fromkeys(REASONS, 0))
        self._open: set[Connection] = set()
        self._looking = False

    @property
    def protocol(self) -> type[asyncio.Protocol]:
        """What uvicorn makes for each connection, as its setting `http`."""
        return cast(type[asyncio.Protocol], partial(Connection, self))

    @property
    def open(self) -> int:
        """How many there are."""
        return len(self._open)

    def add(self, connection: "Connection") -> None:
        """A client has come."""
        self._open.add(connection)
        if not self._looking:
            self._looking = True
            connection.loop.call_later(_LOOK_SECONDS, self._look, connection.loop)

    def discard(self, connection: "Connection") -> None:
        """A client is gone."""
        self._open.discard(connection)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in tuple(self._open):
            connection.look(now)
        self._looking = bool(self._open)
        if self._looking:
            loop.call_later(_LOOK_SECONDS, self._look, loop)


class _HeadTooLarge(Exception):
    """Ends the parsing of a head."""


class Connection(HttpToolsProtocol):
    """One of them; uvicorn calls it, and the parser does."""

    def __init__(self, connections: Connections, **given: Any) -> None:
        """`given` is uvicorn's."""
        super().__init__(**given)
        self._connections = connections
        self._patience = connections.patience
        # What is awaited of the client, and until when; None where it is the server's turn.
        self._awaited: tuple[float, _Refusal] | None = None
        self._refused = False
        self._in_head = self._in_message = False
        self._heads = self._head_bytes = 0
        self._body_is_due = self._muted = False
        self._unread_bytes, self._unread_since = 0, 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has come."""
        super().connection_made(transport)
        self._await(self._patience.idle, _IDLE)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._connections.discard(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        if self._refused:
            return
        self._unset_keepalive_if_required()
        heads = self._heads
        try:
            self._feed(data)
        except httptools.HttpParserError as fault:
            too_large = isinstance(fault.__context__, _HeadTooLarge)
            self._refuse(_HEAD_TOO_LARGE if too_large else _NOT_HTTP)
            return
        if self._in_head and self._heads == heads:
            # A header that does not end is not told of before.
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(_HEAD_TOO_LARGE)

    def _feed(self, data: bytes) -> None:
        """Has bytes parsed. A wish for another protocol is no reason to leave HTTP/1.1."""
        while True:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as wish:
                # The parser takes what follows the head for the other protocol; it is the body.
                data = data[wish.args[0] :]
                self.parser = httptools.HttpRequestParser(self)
                if self._body_is_due:
                    self._body_is_due = False
                    self._muted = True
                    self.parser.feed_data(_head_of_body(self.headers))
                    self._muted = False

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        if self._muted:
            return
        super().on_message_begin()
        self._heads += 1
        self._head_bytes = 0
        self._in_head = self._in_message = True
        self._await(self._patience.head, _HEAD_TOO_SLOW)

    def on_url(self, url: bytes) -> None:
        """A piece of the target."""
        if self._muted:
            return
        self._take(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer of the body."""
        if self._muted:
            return
        if len(self.headers) >= MAX_HEADERS:
            raise _HeadTooLarge
        self._take(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The end of the head."""
        if self._muted:
            return
        self._in_head = False
        self._awaited = None
        self._body_is_due = self.parser.should_upgrade() and bool(_framing(self.headers))
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The end of the body."""
        if self._body_is_due:
            return
        self._in_message = False
        if self._awaited is not None and self._awaited[1] is _BODY_ABANDONED:
            self._awaited = None
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The last byte of an answer was handed over."""
        if self._in_head:
            self._await(self._patience.head, _HEAD_TOO_SLOW)
        elif self._in_message and self.cycle.response_complete:
            self._await(self._patience.rest, _BODY_ABANDONED)
        super().on_response_complete()

    def look(self, now: float) -> None:
        """Ends the connection where the client has been waited for too long."""
        unread_bytes = self.transport.get_write_buffer_size()
        if unread_bytes == 0 or unread_bytes < self._unread_bytes or not self._unread_bytes:
            self._unread_since = now
        self._unread_bytes = unread_bytes
        if now - self._unread_since > self._patience.answer:
            self._connections.ended[_ANSWER_NOT_READ.reason] += 1
            # Not closed: that would wait for the client to read.
            self.transport.abort()
        elif self._awaited is not None and now > self._awaited[0]:
            if self._refused:
                self.transport.abort()
            elif not self._answering:
                self._refuse(self._awaited[1])

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _take(self, size_bytes: int) -> None:
        self._head_bytes += size_bytes
        if self._head_bytes > MAX_HEAD_BYTES:
            raise _HeadTooLarge

    def _await(self, seconds: float, refusal: _Refusal) -> None:
        self._awaited = (self.loop.time() + seconds, refusal)

    def _refuse(self, refusal: _Refusal) -> None:
        """Ends the connection, with an answer where none has begun."""
        if self.transport.is_closing():
            return
        self._refused = True
        self._connections.ended[refusal.reason] += 1
        if not refusal.status or self._answering:
            self.transport.close()
            return
        body = json.dumps({"detail": refusal.detail}).encode()
        self.transport.write(
            b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
            b"connection: close\r\n\r\n%b" % (refusal.status.encode(), len(body), body)
        )
        if self.transport.can_write_eof():
            self.transport.write_eof()
            self._await(_LINGER_SECONDS, refusal)
        else:
            self.transport.close()


def _framing(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers that say where a body ends."""
    names = (b"content-length", b"transfer-encoding")
    return [header for header in headers if header[0] in names]


def _head_of_body(headers: list[tuple[bytes, bytes]]) -> bytes:
    """A head behind which a parser reads the body that these headers announce."""
    lines = [b"%b: %b\r\n" % header for header in _framing(headers)]
    return b"POST / HTTP/1.1\r\n" + b"".join(lines) + b"\r\n"
