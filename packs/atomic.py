"""Writes a file beside its place and renames it, so that a reader sees the old one or the new one.

Also keeps writers of one file apart who read it first.
"""

import errno
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG

from spinf_serve.packs.files import open_at_once

_RETRY_SECONDS = 0.05


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


@contextmanager
def locked(path: Path, seconds: float) -> Iterator[None]:
    """Be the only one between reading and writing a file, among processes that ask for this.

    The lock is a file beside it, of which nothing remains; it ends with its process.

    Raises `OSError`, `TimeoutError` after so many seconds in which another had it.
    """
    lock = path.with_name(f".{path.name}.lock")
    until = time.monotonic() + seconds
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if _taken(descriptor) and _is_still(lock, descriptor):
                try:
                    yield
                finally:
                    lock.unlink(missing_ok=True)
                return
        finally:
            os.close(descriptor)
        if time.monotonic() > until:
            raise TimeoutError(errno.ETIMEDOUT, "another process holds the lock", str(lock))
        time.sleep(_RETRY_SECONDS)


def _taken(descriptor: int) -> bool:
    # Not everywhere; who publishes nothing does without.
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(lock: Path, descriptor: int) -> bool:
    """Whether the file is the one that was opened: who had the lock before takes it away."""
    try:
        return os.path.samestat(os.stat(lock), os.fstat(descriptor))
    except FileNotFoundError:
        return False


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
    with open(path, "wb", opener=open_at_once) as file:
        os.set_blocking(file.fileno(), True)
        file.write(data)
