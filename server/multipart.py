"""Bodies of several parts: read piece by piece, or taken apart whole where one part is the request."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from typing import Protocol

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser

from spinf_serve.packs.errors import Refused

REQUEST = "request"
"""Name of the part that holds the request."""

_MAX_PARTS = 64
_SHOWN_CHARS = 64
# Python's reader of such headers takes the square of their length; a boundary has 70 characters.
_MAX_HEADER_CHARS = 1024


@dataclass(frozen=True, slots=True)
class Parts:
    """A body, taken apart.

    Attributes:
        request: the bytes of the part named `request`.
        others: names of the other parts.
    """

    request: bytes
    others: frozenset[str]


def boundary_of(content_type: str | None) -> str | None:
    """What stands between the parts of a body; None where it is not of several parts.

    Raises `Refused` (`invalid_encoding`) where it should be and the header does not say, or is
    longer than any that says so.
    """
    if len(content_type or "") > _MAX_HEADER_CHARS:
        raise Refused(
            "invalid_encoding",
            f"the Content-Type has over {_MAX_HEADER_CHARS} characters; send a plain one",
        )
    header = Message()
    header["content-type"] = content_type or ""
    if header.get_content_type() != "multipart/form-data":
        return None
    boundary = header.get_boundary()
    if not boundary:
        raise Refused("invalid_encoding", "the Content-Type multipart/form-data lacks its boundary")
    return boundary


class Taker(Protocol):
    """Who gets the parts of a body as they come."""

    def part(self, name: str, disposition: Message) -> None:
        """A part begins; no two have one name. `disposition` is its header of that name."""
        ...

    def data(self, piece: bytes) -> None:
        """More of the part that began last."""
        ...


class PartsReader:
    """Reads a body of several parts as its bytes come.

    Attributes:
        names: of all parts so far.
    """

    def __init__(self, boundary: str, taker: Taker, max_parts: int) -> None:
        """`boundary` is as `boundary_of` found it. Raises `Refused` where it cannot be one."""
        self.names: set[str] = set()
        self._taker = taker
        self._max_parts = max_parts
        self._ended = False
        self._disposition = ""
        self._header, self._value = bytearray(), bytearray()
        with _told():
            self._parser = MultipartParser(
                boundary.encode(),
                {
                    "on_part_begin": self._part_begins,
                    "on_header_begin": self._header_begins,
                    "on_header_field": self._header_field,
                    "on_header_value": self._header_value,
                    "on_header_end": self._header_ends,
                    "on_headers_finished": self._headers_end,
                    "on_part_data": self._part_data,
                    "on_end": self._ends,
                },
            )

    def write(self, piece: bytes) -> None:
        """More of the body.

        Raises `Refused`: `invalid_encoding` where it is not of such parts, has too many, or two of one
        name; and what the taker raises.
        """
        with _told():
            self._parser.write(piece)

    def end(self) -> None:
        """That was all. Raises `Refused` (`invalid_encoding`) where it ends too early."""
        with _told():
            self._parser.finalize()
        if not self._ended:
            raise broken("it ends too early")

    def _part_begins(self) -> None:
        if len(self.names) == self._max_parts:
            raise broken(f"it has more than {self._max_parts} parts")
        self._disposition = ""

    def _header_begins(self) -> None:
        self._header, self._value = bytearray(), bytearray()

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_ends(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = self._value.decode("utf-8", "replace")

    def _headers_end(self) -> None:
        header = Message()
        header["content-disposition"] = self._disposition.replace("\r", " ").replace("\n", " ")
        name = header.get_param("name", header="content-disposition")
        if not isinstance(name, str) or not name:
            raise broken("a part has no name")
        if name in self.names:
            raise broken(f"it has two parts named {name[:_SHOWN_CHARS]!a}")
        self.names.add(name)
        self._taker.part(name, header)

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        self._taker.data(data[start:end])

    def _ends(self) -> None:
        self._ended = True


def take_apart(body: bytes, boundary: str) -> Parts:
    """The parts of a body, which lie in it, so that its limit of bytes is theirs.

    Raises:
        Refused: `invalid_encoding` for a body that is not of such parts, ends too early, has more
            than 64 of them, two of one name, or none named `request`.
    """
    request = _Request()
    reader = PartsReader(boundary, request, _MAX_PARTS)
    reader.write(body)
    reader.end()
    if REQUEST not in reader.names:
        raise broken(f"it has no part named {REQUEST!r}")
    return Parts(bytes(request.body), frozenset(reader.names - {REQUEST}))


class _Request:
    """Takes the part that is the request; the bytes of others are let go."""

    def __init__(self) -> None:
        self.body = bytearray()
        self._now = False

    def part(self, name: str, disposition: Message) -> None:
        self._now = name == REQUEST

    def data(self, piece: bytes) -> None:
        if self._now:
            self.body += piece


def broken(why: str) -> Refused:
    """The refusal of a body that is not of several parts as it should be."""
    return Refused("invalid_encoding", f"the body is not valid multipart/form-data: {why}")


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except FormParserError as fault:
        raise broken(str(fault)) from None
