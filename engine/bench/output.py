"""Writes what a measurement or a check found; a reader sees the old file or the new one."""

import json
from pathlib import Path
from typing import Any

from spinf_serve.packs.errors import Unusable


def write_json(path: Path, found: Any) -> None:
    """Put JSON into a file. What is no regular file, such as `/dev/null`, stays and is written into.

    Raises `Unusable` when that fails.
    """
    text = json.dumps(found, indent=1) + "\n"
    try:
        if path.exists() and not path.is_file():
            path.write_text(text)
            return
        # A link is followed.
        path = path.resolve()
        beside = path.with_name(f"{path.name}.part")
        beside.write_text(text)
        beside.replace(path)
    except OSError as error:
        raise Unusable(f"{path} cannot be written: {error.strerror}") from None
