"""Bodies of several parts: the one part that is the request, and the names of the others.

The parts lie in the body that was read already, so that its limit of bytes is theirs.
"""

from dataclasses import dataclass, field
from email.message import Message

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser

from spinf_serve.packs.errors import Refused

REQUEST = "request"
"""Name of the part that holds the request."""

_MAX_PARTS = 64
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


def take_apart(body: bytes, boundary: str) -> Parts:
    """The parts of a body.

    Raises:
        Refused: `invalid_encoding` for a body that is not of such parts, ends too early, has more
            than 64 of them, two of one name, or none named `request`.
    """
    reader = _Reader()
    try:
        parser = MultipartParser(
            boundary.encode(),
            {
                "on_part_begin": reader.part_begins,
                "on_header_begin": reader.header_begins,
                "on_header_field": reader.header_field,
                "on_header_value": reader.header_value,
                "on_header_end": reader.header_ends,
                "on_headers_finished": reader.headers_end,
                "on_part_data": reader.part_data,
                "on_end": reader.ends,
            },
        )
        parser.write(body)
        parser.finalize()
    except FormParserError as fault:
        raise _broken(str(fault)) from None
    if not reader.ended:
        raise _broken("it ends too early")
    if not reader.has_request:
        raise _broken(f"it has no part named {REQUEST!r}")
    return Parts(bytes(reader.request), frozenset(reader.names - {REQUEST}))


@dataclass(slots=True)
class _Reader:
    """What the parser has met so far; the bytes of other parts than the request are let go."""

    request: bytearray = field(default_factory=bytearray)
    names: set[str] = field(default_factory=set)
    has_request: bool = False
    ended: bool = False
    _in_request: bool = False
    _disposition: str = ""
    _header: bytearray = field(default_factory=bytearray)
    _value: bytearray = field(default_factory=bytearray)

    def part_begins(self) -> None:
        if len(self.names) == _MAX_PARTS:
            raise _broken(f"it has more than {_MAX_PARTS} parts")
        self._disposition = ""

    def header_begins(self) -> None:
        self._header, self._value = bytearray(), bytearray()

    def header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def header_ends(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = self._value.decode("utf-8", "replace")

    def headers_end(self) -> None:
        header = Message()
        header["content-disposition"] = self._disposition.replace("\r", " ").replace("\n", " ")
        name = header.get_param("name", header="content-disposition")
        if not isinstance(name, str) or not name:
            raise _broken("a part has no name")
        if name in self.names:
            raise _broken(f"it has two parts named {name[:64]!r}")
        self.names.add(name)
        self._in_request = name == REQUEST
        self.has_request |= self._in_request

    def part_data(self, data: bytes, start: int, end: int) -> None:
        if self._in_request:
            self.request += data[start:end]

    def ends(self) -> None:
        self.ended = True


def _broken(why: str) -> Refused:
    return Refused("invalid_encoding", f"the body is not valid multipart/form-data: {why}")
