"""Texts of the decision formats, which may be objects and lists: what of them the model reads."""

import json
from typing import Any

from spinf_serve.packs.errors import Refused, kind_of
from spinf_serve.server.wire.json_text import Document, half_pair

# A key that stands in a dotted path as it is.
_DOTTED = frozenset(".[]")


def text_of(value: Any, path: str) -> str:
    """A text as it is, an object or a list as JSON in one line.

    Raises `Refused` (`invalid_field`) for anything else, and for what no JSON can say.
    """
    if type(value) is str:
        return value
    if type(value) not in (dict, list):
        raise Refused(
            "invalid_field",
            f"{path} is {kind_of(value)}; a text, an object or a list is needed",
            path,
        )
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except RecursionError:
        raise Refused("invalid_field", f"{path} is nested too deeply", path) from None
    except ValueError:
        raise Refused(
            "invalid_field", f"{path} holds a number that is too large to be one", path
        ) from None


def optional_text_of(value: Any, path: str) -> str:
    """`text_of` without space around it; empty for null."""
    return "" if value is None else text_of(value, path).strip()


def at_key(path: str, key: str) -> str:
    """Path of a key of an object whose keys are the caller's: `questions.late`, `questions["a.b"]`.

    `problems` takes it apart again.
    """
    plain = key.isprintable() and not key.isdecimal() and not _DOTTED.intersection(key)
    if key and plain:
        return f"{path}.{key}"
    return f"{path}[{json.dumps(key, ensure_ascii=False)}]"


def refuse_half_pairs(document: Document) -> None:
    """Refuses a body with a string that no UTF-8 can say."""
    found = half_pair(document.value) if document.may_hold_half_pairs else None
    if found is not None:
        where = found[0] or "body"
        raise Refused("invalid_field", f"{where} is not valid Unicode: {found[1]}", where)
