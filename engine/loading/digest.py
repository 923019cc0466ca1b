"""Digests of a checkpoint's bytes. hashlib frees the interpreter lock, so a thread can make them."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from spinf_serve.packs.errors import Unusable


def file_digest(path: Path) -> str:
    """sha256 of a file, 64 hex digits. Raises `Unusable` when it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise Unusable(f"{path}: cannot be read ({error.strerror})") from error


def folder_digest(paths: Iterable[Path]) -> str:
    """sha256 over names and digests of files, in the order of their names; 64 hex digits.

    Where the folder lies does not matter. Raises `Unusable` when a file cannot be read.
    """
    lines = sorted(f"{path.name} {file_digest(path)}\n" for path in paths)
    return hashlib.sha256("".join(lines).encode()).hexdigest()
