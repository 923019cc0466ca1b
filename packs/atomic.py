"""Writes a file beside its place and renames it, so that a reader sees the old one or the new one."""

import os
import secrets
from pathlib import Path


def write_beside(path: Path, data: bytes) -> None:
    """Put bytes into a file in one step; its mode stays, a link is followed.

    Raises `OSError`, after which the file is as it was.
    """
    path = path.resolve()
    # A short name of its own: one made from the file's could be too long.
    beside = path.with_name(f".{secrets.token_hex(8)}.part")
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
