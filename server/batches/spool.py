"""The output and error file of a batch while it runs: lines are added at their ends.

What counts is what the ledger says: the files are cut back to that first, so that a line which was
written but not noted before a sudden end is written again and stands once.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from spinf_serve.server.batches.ledger import Ledger
from spinf_serve.server.batches.records import Batch, Progress
from spinf_serve.server.batches.rows import Row
from spinf_serve.server.ids import new_id
from spinf_serve.server.wire.json_text import encode

_OK = 200


@dataclass(frozen=True, slots=True)
class Line:
    """A line of an output or error file.

    Attributes:
        text: the line, with its end.
        completed: whether the row was answered 200, so that it is one of the output file.
        end_bytes: of the input file, up to the end of the row.
    """

    text: bytes
    completed: bool
    end_bytes: int


def answered(row: Row, status: int, request_id: str, body: bytes) -> Line:
    """The line of a row that a route answered; `body` is JSON without line ends."""
    head = _head(row) | {"response": {"status_code": status, "request_id": request_id}}
    # The body is put in as it is, behind the last key of `response`.
    text = encode(head)[:-2] + b',"body":' + body + b'},"error":null}\n'
    return Line(text, status == _OK, row.end_bytes)


def given_up(row: Row, code: str, message: str) -> Line:
    """The line of a row that was never answered."""
    text = encode(_head(row) | {"response": None, "error": {"code": code, "message": message}})
    return Line(text + b"\n", False, row.end_bytes)


def _head(row: Row) -> dict[str, object]:
    return {"id": new_id("batch_req_"), "custom_id": row.custom_id}


class Spool:
    """Both files of a batch, open for writing. One thread at a time; use it in a `with` block.

    Attributes:
        progress: how far the batch has come.
    """

    def __init__(self, folder: Path, ledger: Ledger, batch: Batch) -> None:
        """Opens the files and cuts them back. Raises OSError."""
        self.progress = batch.progress
        self._ledger = ledger
        self._id = batch.id
        self._output = _cut(folder / batch.output_file_id, batch.progress.output_bytes)
        try:
            self._error = _cut(folder / batch.error_file_id, batch.progress.error_bytes)
        except OSError:
            self._output.close()
            raise

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the files."""
        self._output.close()
        self._error.close()

    def add(self, lines: Sequence[Line]) -> None:
        """Writes lines, in the order of their rows, and notes them.

        They are on the disk when the ledger says so. Raises OSError and `sqlite3.Error`; open
        another spool then.
        """
        completed = [line for line in lines if line.completed]
        failed = [line for line in lines if not line.completed]
        before = self.progress
        progress = Progress(
            input_bytes=lines[-1].end_bytes,
            output_bytes=before.output_bytes + _write(self._output, completed),
            error_bytes=before.error_bytes + _write(self._error, failed),
            completed=before.completed + len(completed),
            failed=before.failed + len(failed),
        )
        self._ledger.advance(self._id, progress)
        self.progress = progress


def _cut(path: Path, size_bytes: int) -> BinaryIO:
    file = path.open("ab")
    try:
        if file.tell() < size_bytes:
            raise OSError(f"{path} has {file.tell()} bytes, {size_bytes} were written")
        file.truncate(size_bytes)
    except OSError:
        file.close()
        raise
    return file


def _write(file: BinaryIO, lines: Sequence[Line]) -> int:
    """Has lines on the disk; how many bytes they are."""
    if not lines:
        return 0
    text = b"".join(line.text for line in lines)
    file.write(text)
    file.flush()
    os.fsync(file.fileno())
    return len(text)
