"""An upload: multipart/form-data whose part `file` goes to disk as it arrives, within its limit."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path
from typing import BinaryIO

from starlette.requests import Request

from spinf_serve.packs.errors import Refused
from spinf_serve.server.multipart import PartsReader, boundary_of
from spinf_serve.server.problems import Stalled

ANY_SIZE = 10**18
"""Declared size that the border lets through for uploads; this module has their limit."""

FILE = "file"

_FIELD_BYTES = 1024
_MAX_PARTS = 16
# Of a body, besides its file.
_FORM_BYTES = 64 * 1024
# Written at once; smaller pieces are not worth a thread.
_BLOCK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Upload:
    """An upload that is on the disk.

    Attributes:
        filename: as the caller calls the file.
        size_bytes: of the file.
        fields: name -> text of the other parts.
    """

    filename: str
    size_bytes: int
    fields: Mapping[str, str]


async def receive(request: Request, path: Path, limit_bytes: int, idle_seconds: float) -> Upload:
    """Writes the file of a request to a path; a refused one leaves nothing there.

    Raises:
        Refused: `invalid_encoding` for a body that is no form, `invalid_field` for one without a
            file, `body_too_large` as soon as the file has more than `limit_bytes`.
        Stalled: nothing has come for `idle_seconds`.
    """
    boundary = boundary_of(request.headers.get("content-type"))
    if boundary is None:
        raise Refused("invalid_encoding", "an upload is multipart/form-data with a part `file`")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:19]) > limit_bytes + _FORM_BYTES:
        raise _too_large(limit_bytes)
    try:
        with await asyncio.to_thread(path.open, "xb") as file:
            form = _Form(file, limit_bytes)
            await _read(request, form, boundary, idle_seconds)
            await asyncio.to_thread(form.settle)
    except BaseException:
        # Also when the client leaves.
        path.unlink(missing_ok=True)
        raise
    fields = {name: value.decode("utf-8", "replace") for name, value in form.fields.items()}
    return Upload(form.filename, form.size_bytes, fields)


async def _read(request: Request, form: "_Form", boundary: str, idle_seconds: float) -> None:
    stream = request.stream()
    reader = PartsReader(boundary, form, _MAX_PARTS)
    try:
        while True:
            async with asyncio.timeout(idle_seconds):
                piece = await anext(stream, None)
            if piece is None:
                break
            reader.write(piece)
            if len(form.block) >= _BLOCK_BYTES:
                await asyncio.to_thread(form.write)
    except TimeoutError:
        raise Stalled(
            "invalid_encoding",
            f"the upload stopped and nothing came for {idle_seconds} seconds; send all of it, or "
            "start the server with a larger --body-idle-seconds",
        ) from None
    reader.end()
    if FILE not in reader.names:
        raise Refused("invalid_field", "the form has no part `file`", FILE)


@dataclass(slots=True)
class _Form:
    """What has come so far.

    Attributes:
        file: where the part `file` is written.
        limit_bytes: of it.
        block: of it, what is not written yet.
        size_bytes: of it, so far.
        filename: of it.
        fields: the other parts.
    """

    file: BinaryIO
    limit_bytes: int
    block: bytearray = field(default_factory=bytearray)
    size_bytes: int = 0
    filename: str = ""
    fields: dict[str, bytearray] = field(default_factory=dict)
    _name: str = ""

    def part(self, name: str, disposition: Message) -> None:
        """A part begins."""
        self._name = name
        if name == FILE:
            self.filename = _filename(disposition)[:255] or "upload"
        else:
            self.fields[name] = bytearray()

    def data(self, piece: bytes) -> None:
        """More of it."""
        if self._name == FILE:
            self.size_bytes += len(piece)
            if self.size_bytes > self.limit_bytes:
                raise _too_large(self.limit_bytes)
            self.block += piece
            return
        value = self.fields[self._name]
        value += piece
        if len(value) > _FIELD_BYTES:
            raise Refused(
                "invalid_field", f"{self._name[:64]!a} has over {_FIELD_BYTES} bytes", self._name
            )

    def write(self) -> None:
        """Writes what has come."""
        self.file.write(self.block)
        self.block = bytearray()

    def settle(self) -> None:
        """Has all of the file on the disk."""
        self.write()
        self.file.flush()
        os.fsync(self.file.fileno())


def _filename(disposition: Message) -> str:
    """The name that a part gives its file; whatever else it says is not read for one."""
    given = disposition.get_param("filename", "", header="content-disposition")
    if isinstance(given, tuple):
        # RFC 8187 has UTF-8; senders that name another charset name one that Python may not read.
        given = given[2].encode("latin-1", "replace").decode("utf-8", "replace")
    return given.strip()


def _too_large(limit_bytes: int) -> Refused:
    return Refused(
        "body_too_large",
        f"the file is over the limit of {limit_bytes} bytes: split it, or start the server with "
        "larger --max-batch-file-bytes and --max-batch-dir-bytes",
        FILE,
    )
