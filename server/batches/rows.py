"""The lines of an input file: what a row is, and whether a file holds nothing but rows.

A row is `{"custom_id", "method": "POST", "url", "body"}` on a line of its own; lines of white space
are passed over. Knows no batch and no database.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

from spinf_serve.packs.errors import Refused, kind_of
from spinf_serve.server.batches.records import Flaw
from spinf_serve.server.wire.json_text import decode, half_pair

MAX_ROWS = 200_000
"""Rows of one file; their ids are held in memory while a file is checked."""

MAX_FLAWS = 100
"""Flaws that a failed batch names; its file is not read further then."""

MAX_ID_CHARS = 512

# Of a line, besides the body of its request.
_ENVELOPE_BYTES = 16 * 1024
_KEYS = ("custom_id", "method", "url", "body")


@dataclass(frozen=True, slots=True)
class Row:
    """A request of a file.

    Attributes:
        custom_id: the caller's name of it, unique in its file.
        body: its body, as JSON.
        end_bytes: of the file, up to the end of its line.
    """

    custom_id: str
    body: bytes
    end_bytes: int


def read_rows(file: BinaryIO, endpoint: str) -> Iterator[Row]:
    """The rows from where a file stands; raises `Refused` at one that is none of the endpoint."""
    while line := file.readline():
        if line.strip():
            yield _row(line, endpoint, file.tell())


def check_file(
    path: Path, endpoint: str, max_body_bytes: int, stopped: Callable[[], bool]
) -> tuple[int, list[Flaw]]:
    """How many rows a file has, and what is wrong with them.

    Args:
        path: the file.
        endpoint: path of the route that all rows must ask.
        max_body_bytes: largest body of a row.
        stopped: whether nobody needs to know any more; then the answer is of the rows so far.

    Returns:
        The number of rows, and the first `MAX_FLAWS` flaws.
    """
    flaws: list[Flaw] = []
    seen: set[int] = set()
    rows = 0
    with path.open("rb") as file:
        for number, line in _lines(file, max_body_bytes + _ENVELOPE_BYTES):
            if stopped() or len(flaws) == MAX_FLAWS:
                break
            if line is not None and not line.strip():
                continue
            rows += 1
            try:
                if rows > MAX_ROWS:
                    raise Refused(
                        "invalid_field",
                        f"the file has more than {MAX_ROWS} rows; split it into several",
                    )
                _check(line, endpoint, max_body_bytes, seen)
            except Refused as refused:
                flaws.append(Flaw.of(refused, number))
            if rows > MAX_ROWS:
                break
    if not rows:
        empty = Refused("invalid_field", "the file has no row; send a request a line")
        flaws.append(Flaw.of(empty, None))
    return rows, flaws


def _lines(file: BinaryIO, limit_bytes: int) -> Iterator[tuple[int, bytes | None]]:
    """Line numbers from 1 and lines; None for one that is longer than the limit."""
    number = 0
    while line := file.readline(limit_bytes + 1):
        number += 1
        if len(line) <= limit_bytes:
            yield number, line
            continue
        while not line.endswith(b"\n") and (line := file.readline(limit_bytes)):
            pass
        yield number, None


def _check(line: bytes | None, endpoint: str, max_body_bytes: int, seen: set[int]) -> None:
    row = None if line is None else _row(line, endpoint, 0)
    if row is None or len(row.body) > max_body_bytes:
        raise Refused(
            "body_too_large",
            f"the body is over the limit of {max_body_bytes} bytes; split the request, or start "
            "the server with a larger --max-body-bytes",
            "body",
        )
    # A digest, so that long ids take no room; two of 200,000 agree by chance once in 10^9 files.
    digest = int.from_bytes(blake2b(row.custom_id.encode(), digest_size=8).digest(), "big")
    if digest in seen:
        raise Refused("duplicate_id", f"{row.custom_id!a} stands on a line before too", "custom_id")
    seen.add(digest)


def _row(line: bytes, endpoint: str, end_bytes: int) -> Row:
    value = decode(line).value
    if not isinstance(value, dict):
        raise _invalid(f"a row is an object with {', '.join(_KEYS)}, not {kind_of(value)}", None)
    for name in value:
        if name not in _KEYS:
            raise _invalid(f"a row has {', '.join(_KEYS)} and nothing else", ascii(name)[1:-1])
    for name in _KEYS:
        if name not in value:
            raise _invalid(f"the row has no {name}", name)
    _same(value, "method", "POST", "every row is a POST")
    _same(value, "url", endpoint, "every row asks the endpoint of its batch")
    body = value["body"]
    if not isinstance(body, dict):
        raise _invalid(f"the body is an object, not {kind_of(body)}", "body")
    return Row(_custom_id(value["custom_id"]), _encoded(body), end_bytes)


def _encoded(body: dict[str, Any]) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        # Escapes keep what UTF-8 cannot hold, for the route to refuse in its own words.
        return json.dumps(body).encode()


def _custom_id(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_ID_CHARS or half_pair([value]):
        raise _invalid(f"custom_id is a text of 1 to {MAX_ID_CHARS} characters", "custom_id")
    return value


def _same(row: dict[str, Any], name: str, wanted: str, rule: str) -> None:
    if row[name] != wanted:
        shown = ascii(row[name]) if isinstance(row[name], str) else kind_of(row[name])
        raise _invalid(f"{name} is {shown[:100]}; {rule}: send {wanted}", name)


def _invalid(message: str, param: str | None) -> Refused:
    return Refused("invalid_field", message, param)
