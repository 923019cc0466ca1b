"""Writes a file beside its place and renames it, so that a reader sees the old one or the new one."""

import os
import tempfile
from pathlib import Path


def write_beside(path: Path, data: bytes) -> None:
    """Put bytes into a file in one step; its mode stays, a link is followed.

    Raises `OSError`, after which the file is as it was.
    """
    path = path.resolve()
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    beside = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.chmod(_mode(path))
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _mode(path: Path) -> int:
    """The file's own mode; for a new one that of a plain new file under this umask."""
    try:
        return path.stat().st_mode & 0o777
    except FileNotFoundError:
        mask = os.umask(0o077)
        os.umask(mask)
        return 0o666 & ~mask
