"""Reads the JSON files of a model folder, with errors that name the file."""

import json
from pathlib import Path
from typing import Any

from spinf_serve.packs.errors import Unusable, kind_of


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises `Unusable` when it is missing or no JSON object."""
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise Unusable(
            f"{path.parent}: {path.name} is missing; a model's folder holds all files of its "
            "repository: fetch them again, or name the repository, owner/name, instead"
        ) from None
    except OSError as error:
        raise Unusable(f"{path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise Unusable(f"{path}: not valid JSON ({error})") from error
    if not isinstance(found, dict):
        raise Unusable(f"{path}: should be a JSON object, found {kind_of(found)}")
    return found


def read_json_if_there(path: Path) -> dict[str, Any]:
    """Like `read_json`, but an empty object for a missing file."""
    return read_json(path) if path.is_file() else {}
