"""Files that commands write: whether they can be, found out before anything takes its time."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from spinf_serve.packs.atomic import try_beside, write_beside
from spinf_serve.packs.errors import Unusable
from spinf_serve.packs.files import same_file, shown


def check_output(option: str, path: Path, inputs: Mapping[str, Path]) -> None:
    """Refuse what cannot be written, or is also read.

    Args:
        option: what names the file, for the message.
        inputs: what a file is, such as `the sample` -> the file.

    Raises:
        Unusable: one line with the remedy.
    """
    if _is_stdout(path):
        return
    for what, file in inputs.items():
        if same_file(path, file):
            raise Unusable(f"{option} {shown(path)} is {what} itself: name another file")
    try:
        try_beside(path)
    except OSError as error:
        raise Unusable(f"{option} {shown(path)} cannot be written: {error.strerror}") from None


def write_output(path: Path, text: str) -> None:
    """Write a file whole, or into what is no regular file. Raises `Unusable`."""
    data = text.encode(errors="backslashreplace")
    if _is_stdout(path):
        # Behind what was printed, and not in place of it.
        write_stdout(data)
        return
    try:
        write_beside(path, data)
    except OSError as error:
        raise Unusable(f"{shown(path)} cannot be written: {error.strerror}") from None


def write_stdout(data: bytes) -> None:
    """Print bytes: packs hold any script, and the console's own encoding may not."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.flush()


def _is_stdout(path: Path) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(1))
    except (OSError, ValueError):
        return False
