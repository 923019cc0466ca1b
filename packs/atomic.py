"""Writes a file beside its place and renames it, so that a reader sees the old one or the new one."""

import errno
import os
import secrets
from pathlib import Path
from stat import S_ISREG


def write_beside(path: Path, data: bytes) -> None:
    """Put bytes into a file in one step; its mode stays, a link is followed.

    What is no regular file, such as `/dev/null` or a named pipe, stays and is written into.

    Raises `OSError`, after which a regular file is as it was; a named pipe that nobody reads is an
    error.
    """
    if _is_special(path):
        _write_into(path, data)
        return
    path = path.resolve()
    beside = _beside(path)
    try:
        with beside.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            beside.chmod(path.stat().st_mode & 0o777)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def try_beside(path: Path) -> None:
    """Find out whether `write_beside` could write, leaving nothing behind. Raises `OSError`."""
    if _is_special(path):
        # Not by opening it: whoever reads a pipe would take the closing for its end.
        if path.is_dir() or not os.access(path, os.W_OK):
            number = errno.EISDIR if path.is_dir() else errno.EACCES
            raise OSError(number, os.strerror(number), str(path))
        return
    beside = _beside(path.resolve())
    with beside.open("xb"):
        beside.unlink()


def _beside(path: Path) -> Path:
    # A short name of its own: one made from the file's could be too long.
    return path.with_name(f".{secrets.token_hex(8)}.part")


def _is_special(path: Path) -> bool:
    try:
        return not S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return False


def _write_into(path: Path, data: bytes) -> None:
    # Without O_NONBLOCK, opening a pipe would wait for its reader.
    descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "wb") as file:
        os.set_blocking(descriptor, True)
        file.write(data)
