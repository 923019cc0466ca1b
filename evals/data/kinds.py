"""What kind of file bytes are, where a name says another."""

from pathlib import Path
from typing import Final

from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import shown

_KINDS: Final = (
    (b"PK\x03\x04", ".xlsx", "a zip file, as workbooks are: call a workbook .xlsx, unpack others"),
    (b"PAR1", ".parquet", "a Parquet file: call it .parquet"),
    (b"\xd0\xcf\x11\xe0", "", "an old or encrypted workbook: save it as .xlsx without a password"),
    (b"\x1f\x8b", "", "compressed by gzip: unpack it"),
    (b"\x28\xb5\x2f\xfd", "", "compressed by zstd: unpack it"),
    (b"BZh", "", "compressed by bzip2: unpack it"),
    (b"\xfd7zXZ\x00", "", "compressed by xz: unpack it"),
    (b"SQLite format 3\x00", "", "an SQLite database: export its table as CSV"),
    (b"%PDF-", "", "a PDF: export the table as CSV"),
    (b"\x89PNG\r\n", "", "a picture: import a table that names it"),
    (b"\xff\xd8\xff", "", "a picture: import a table that names it"),
    (b'{"', "", "JSON lines: call it .jsonl"),
)


_NAMES: Final = {".xlsx": "workbook", ".parquet": "Parquet file"}


def check_kind(path: Path, ending: str) -> None:
    """Compare a file's first bytes with its name.

    Args:
        ending: `.xlsx`, `.parquet`, or any of a text file.

    Raises `Unusable` with what to do: they are of another kind. A file without bytes is of any kind.
    """
    try:
        with path.open("rb") as file:
            start = file.read(16)
    except OSError as error:
        raise Unusable(f"{shown(path)} cannot be read: {error.strerror}") from None
    wanted = next((mark for mark, own, _ in _KINDS if own and own == ending), None)
    if wanted is not None and start.startswith(wanted):
        return
    for mark, _, words in _KINDS:
        # Text may begin with some of these letters.
        if mark == b'{"' and ending in (".jsonl", ".ndjson"):
            continue
        if start.startswith(mark) and (mark != b"BZh" or start[4:10] == b"1AY&SY"):
            raise Unusable(f"{shown(path)} is {words}")
    if wanted is not None:
        what = (
            "is empty" if not start else f"is no {_NAMES[ending]}; where it is text, call it .csv"
        )
        raise Unusable(f"{shown(path)} ends in {ending} and {what}")
