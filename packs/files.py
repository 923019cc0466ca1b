"""Reads files that others chose: what is no regular file is refused instead of waited for.

A named pipe, a socket or a device, also behind a link, may never answer or never end. Does not know
what the files mean.
"""

import errno
import os
from pathlib import Path
from stat import S_ISBLK, S_ISCHR, S_ISDIR, S_ISFIFO, S_ISREG, S_ISSOCK
from typing import Final

MAX_BYTES: Final = 16 * 1024 * 1024
"""Most bytes that are read of a pack, a listing, or anything else without a limit of its own."""

_BLOCK: Final = 1 << 20
_KINDS: Final = (
    (S_ISDIR, "a folder"),
    (S_ISFIFO, "a named pipe"),
    (S_ISSOCK, "a socket"),
    (S_ISCHR, "a device"),
    (S_ISBLK, "a device"),
)


def read_regular(path: Path, most: int = MAX_BYTES) -> bytes:
    """The bytes of a regular file, links followed.

    Raises `OSError` with a `strerror` in words: it cannot be read, is no regular file, or is larger
    than `most` bytes.
    """
    data = read_start(path, most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"has more than {most:,} bytes", str(path))
    return data


def read_start(path: Path, most: int) -> bytes:
    """Likewise at most the first `most` bytes of a file of any size."""
    # Opening some devices does something, so that looking comes first; what stands there may be
    # exchanged in between, so that opening must not wait either.
    _check(path, os.stat(path))
    with open(path, "rb", opener=open_at_once) as stream:
        _check(path, os.fstat(stream.fileno()))
        parts = []
        # In blocks: one call would take memory for all that might come.
        while most and (block := stream.read(min(most, _BLOCK))):
            parts.append(block)
            most -= len(block)
    return b"".join(parts)


def open_at_once(path: str, flags: int) -> int:
    """An `opener` that waits for nobody at the other end of a pipe."""
    # Windows has no such flag, and no pipes among its files.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)


def is_regular(path: Path) -> bool:
    """Whether there is a regular file, also behind a link; False for a name that no file can have."""
    try:
        return S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def is_there(path: Path) -> bool:
    """Whether there is anything; False for a name that no file can have."""
    try:
        os.stat(path)
    except (OSError, ValueError):
        return False
    return True


def same_file(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file, by links too, or would if it were written."""
    try:
        return os.path.samestat(os.stat(one), os.stat(other))
    except (OSError, ValueError):
        return os.path.realpath(one) == os.path.realpath(other)


def shown(path: str | Path) -> str:
    """A path in characters that can be printed and sent; a file's name may hold any bytes."""
    return str(path).encode(errors="backslashreplace").decode()


def _check(path: Path, found: os.stat_result) -> None:
    if not S_ISREG(found.st_mode):
        kind = next((words for test, words in _KINDS if test(found.st_mode)), "something else")
        raise OSError(errno.EINVAL, f"{kind}, no regular file", str(path))
