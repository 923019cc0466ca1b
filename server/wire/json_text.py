"""JSON between bytes and values, stricter than the standard library where it would guess."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from spinf_serve.packs.errors import Refused

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_HALF_PAIR_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_SHOWN_CHARS = 64


@dataclass(frozen=True, slots=True)
class Document:
    """A decoded JSON text.

    Attributes:
        value: what it says.
        may_hold_half_pairs: whether a string of it may hold half a surrogate pair: UTF-8 cannot,
            an escape in the text can.
    """

    value: Any
    may_hold_half_pairs: bool = False


def encode(value: Any) -> bytes:
    """A value as compact JSON in UTF-8. Raises ValueError for NaN and infinity."""
    return _ENCODER.encode(value).encode()


def decode(body: bytes) -> Document:
    """The value of a JSON text in UTF-8, with or without a byte order mark.

    Raises:
        Refused: `invalid_json`, also for NaN and infinity, for a key that stands twice in one
            object, for numbers of thousands of digits and for nesting of hundreds of levels.
    """
    try:
        value = json.loads(
            body.decode("utf-8-sig"), object_pairs_hook=_object, parse_constant=_constant
        )
    except UnicodeDecodeError as fault:
        raise _invalid(f"byte {fault.start} is not UTF-8") from None
    except json.JSONDecodeError as fault:
        if not body.strip():
            raise _invalid("it is empty") from None
        # Some of Python's messages end in "at".
        what = fault.msg.removesuffix(" at")
        raise _invalid(f"{what} at line {fault.lineno}, column {fault.colno}") from None
    except RecursionError:
        raise _invalid("it is nested too deeply") from None
    except ValueError:
        # Python reads no integer of more than 4,300 digits.
        raise _invalid("a number has too many digits") from None
    return Document(value, _HALF_PAIR_ESCAPE.search(body) is not None)


def half_pair(value: Any) -> tuple[str, str] | None:
    """The dotted path of the first string or key with half a surrogate pair, and what is wrong."""
    # Own stack: the value may be nested as deeply as the parser allows.
    levels: list[Iterator[tuple[str, Any]]] = [iter([("", value)])]
    names = [""]
    while levels:
        entry = next(levels[-1], None)
        if entry is None:
            levels.pop()
            names.pop()
            continue
        names[-1], item = entry
        texts = [item] if isinstance(item, str) else item if isinstance(item, dict) else ()
        fault = next(filter(None, map(_half_pair_fault, texts)), None)
        if fault is not None:
            return ".".join(names[1:]), fault
        if isinstance(item, dict):
            levels.append(iter(item.items()))
            names.append("")
        elif isinstance(item, list):
            levels.append(zip(map(str, range(len(item))), item, strict=True))
            names.append("")
    return None


def _invalid(why: str) -> Refused:
    return Refused("invalid_json", f"the body is not valid JSON: {why}")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                shown = ascii(key[:_SHOWN_CHARS])
                raise _invalid(f"the key {shown} stands twice in one object")
            seen.add(key)
    return value


def _constant(name: str) -> NoReturn:
    raise _invalid(f"{name} is not a JSON number")


def _half_pair_fault(text: str) -> str | None:
    try:
        text.encode()
    except UnicodeEncodeError as fault:
        half = f"U+{ord(text[fault.start]):04X}"
        return f"character {fault.start + 1} is {half}, half of a surrogate pair; send both halves"
    return None
