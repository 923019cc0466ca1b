"""Digests of a checkpoint's bytes. hashlib frees the interpreter lock, so threads can make them.

One file is one stream, at what a core hashes: 1 to 2 GB a second with the processor's instructions
for it, a quarter of that without. The files of a folder are hashed side by side.
"""

import hashlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from spinf_serve.packs.errors import Unusable

# Files hashed at a time: more would only have a disk jump between them.
_BESIDE: Final = 8


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
    files = tuple(paths)
    with ThreadPoolExecutor(_BESIDE, "digest") as beside:
        digests = beside.map(file_digest, files)
        lines = [f"{path.name} {digest}\n" for path, digest in zip(files, digests, strict=True)]
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()
